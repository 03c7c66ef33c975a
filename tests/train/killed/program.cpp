// Saves that are killed, or whose disk is broken or full, at each call by which they make or change files, as shim.c
// has it, which is preloaded: afterwards what was there loads, or what is new, whole; an error is said in a sentence
// that names a file; and the next save succeeds, and leaves nothing of the one before. program FOLDER STRIDE
// [SCENARIO]: what the STRIDE-th point of each kind does, one after the other, each a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <dlfcn.h>
#include <functional>
#include <sstream>

#include <weft/io/pretrained.hpp>
#include <weft/train/keep_checkpoints.hpp>
#include <weft/weft.hpp>

#include "../small_batches.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

struct fault {
  int at = 0;  // 0: nowhere
  std::string how = "kill";
};
fault wanted;  // of this process

// What a process has done: all that it said, and how it ended.
struct ended {
  int code;
  std::string said;
};

template <class F>
F* of_shim(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

// f in a process of its own. 0: it went well; 1: it threw a weft::failure, 2: something else; 99: it was killed.
ended in_process(const std::function<void()>& f) {
  int ends[2];
  if (::pipe(ends) != 0) throw failure("no pipe");
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1), ::dup2(ends[1], 2);
    int code = 0;
    std::string thrown;
    try {
      f();
    } catch (const failure& e) {
      thrown = e.what(), code = 1;
    } catch (const std::exception& e) {
      thrown = e.what(), code = 2;
    }
    of_shim<void()>("weft_shim_end")();
    std::printf("%s", thrown.c_str());
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(ends[1]);
  ended out{0, {}};
  char part[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;) out.said.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  return out;
}

// All ranks call it: from here on calls are counted, and the wanted one fails.
void begin_counting(context& ctx) {
  ctx.world.barrier().wait();
  if (ctx.is_first()) of_shim<void(int, const char*)>("weft_shim_begin")(wanted.at, wanted.how.c_str());
  ctx.world.barrier().wait();
}

using S = strategy<mesh<dp>, zero3>;
constexpr gpt2_config small{.layers = 1, .hidden = 8, .heads = 2, .vocab = 31, .max_seq = 8, .dropout = 0};

// f(ctx, model, trainer) on four ranks, from a checkpoint where one is given.
template <class F>
void on_ranks(const std::string& from, F&& f, const gpt2_config& config = small) {
  launch<S>({.dp = 4}, [&](context& ctx) {
    gpt2<S> model(ctx, config);
    trainer t(ctx, model);
    if (!from.empty()) load_checkpoint(ctx, t, from);
    f(ctx, model, t);
  });
}
template <class Trainer>
training_result train(context& ctx, Trainer& t, std::int64_t steps, std::vector<training_callback*> callbacks = {}) {
  const std::int64_t begin = t.state().batches;
  return t.run(weft_test::small_batches{&ctx}, {.steps = begin + steps,
                                                .begin = begin,
                                                .batch = 4,
                                                .validation_sequences = 0,
                                                .print = false,
                                                .callbacks = std::move(callbacks)});
}
// What tells checkpoints apart: the loss two steps on, which depends on weights and moments.
std::string loss_from(const std::string& folder) {
  std::string out;
  on_ranks(folder, [&](context& ctx, auto&, auto& t) {
    const double loss = train(ctx, t, 2).loss;
    if (ctx.is_first()) out = std::to_string(loss * 1e6);
  });
  return out;
}

struct scenario {
  const char* name;
  std::function<void(const std::string&)> begin;         // makes what is there before, in a folder
  std::function<void(const std::string&)> save;          // counts its calls
  std::function<std::string(const std::string&)> state;  // what loads from there; throws where nothing does
  std::function<void(const std::string&)> half = {};     // comes to a state between the two, where there is one
};

scenario one_checkpoint() {
  return {"save_checkpoint",
          [](const std::string& room) {
            on_ranks("", [&](context& ctx, auto&, auto& t) {
              train(ctx, t, 2);
              save_checkpoint(ctx, t, room + "/old");
            });
          },
          [](const std::string& room) {
            on_ranks(room + "/old", [&](context& ctx, auto&, auto& t) {
              train(ctx, t, 1);
              if (fs::exists(room + "/new")) return;  // by the save before
              begin_counting(ctx);
              save_checkpoint(ctx, t, room + "/new");
            });
          },
          [](const std::string& room) {
            return loss_from(room + "/old") + (fs::exists(room + "/new") ? ", " + loss_from(room + "/new") : "");
          }};
}

// Two saves of a run that keeps one, and removes the two before.
scenario kept_checkpoints() {
  const auto run = [](const std::string& room, std::int64_t until, int keep = 1) {
    const bool on = fs::exists(room + "/c");
    on_ranks(on ? newest_checkpoint(room + "/c") : "", [&](context& ctx, auto&, auto& t) {
      if (on) begin_counting(ctx);
      keep_checkpoints saves(ctx, t, {.folder = room + "/c", .every = 1, .keep = keep});
      if (t.state().batches < until) train(ctx, t, until - t.state().batches, {&saves});
    });
  };
  return {"keep_checkpoints", [run](const std::string& room) { run(room, 1); },
          [run](const std::string& room) { run(room, 3); },
          [](const std::string& room) { return loss_from(newest_checkpoint(room + "/c")); },
          [run](const std::string& room) {
            run(room, 3, 3);
            fs::remove_all(newest_checkpoint(room + "/c"));
          }};
}

// Does the renames by which an error says that the files of before are whole again, where it says any.
void rename_as_told(const std::string& error) {
  constexpr std::string_view before = "save the model there again, or rename ";
  const std::size_t told = error.find(before);
  if (told == error.npos) return;
  std::istringstream words(error.substr(told + before.size()));
  for (std::string from, to, between; words >> from >> between >> to; words >> between) fs::rename(from, to);
}

// A folder of Hugging Face's that is written over by a model of another configuration; before and behind in files of at
// most so many bytes.
scenario folder_over(const char* name, std::int64_t before, std::int64_t behind) {
  const auto save = [](const std::string& room, std::int64_t steps, std::int64_t most, dtype type) {
    gpt2_config config = small;
    config.norm_eps = static_cast<double>(steps) * 1e-5;
    const auto trained = [&](context& ctx, auto& model, auto& t) {
      train(ctx, t, steps);
      begin_counting(ctx);
      save_pretrained(ctx, model, t.store(), room + "/f", type, {.most_bytes = most});
    };
    on_ranks("", trained, config);
  };
  return {name, [=](const std::string& room) { save(room, 1, before, dtype::bf16); },
          [=](const std::string& room) { save(room, 2, behind, dtype::f32); },
          [](const std::string& room) {
            std::uint64_t all = 1469598103934665603u;  // FNV-1a of all weights, and of the configuration
            const auto add = [&](double x) {
              all = (all ^ std::bit_cast<std::uint32_t>(static_cast<float>(x))) * 1099511628211u;
            };
            try {
              read_config_json(room + "/f");
            } catch (const file_error& e) {
              rename_as_told(e.what());
            }
            launch<strategy<mesh<>>>({}, [&](context& ctx) {
              auto read = gpt2_from_pretrained<strategy<mesh<>>>(ctx, room + "/f");
              read.store.each_parameter([&](const parameter_record&, const auto&, const auto& numbers) {
                for (const auto x : numbers) add(x);
              });
              add(read.model.config().norm_eps);
            });
            return std::to_string(all);
          }};
}

// Files of weights have one of two names, by what they are written over.
std::string names_in(const std::string& room) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(room)) {
    std::string name = entry.path().string().substr(room.size());
    if (const std::size_t at = name.find("/weights-"); at != name.npos) name.replace(at, 9, "/model-");
    names.insert(name);
  }
  std::string out;
  for (const std::string& name : names) out += name + ' ';
  return out;
}

int all_points = 0, all_new = 0;

void run(const scenario& s, const std::string& work, int stride) {
  const std::string before = work + "/before", room = work + "/room";
  const auto begin = [&] {
    fs::remove_all(room);
    fs::copy(before, room, fs::copy_options::recursive);
  };
  const auto fail = [&](const std::string& what) {
    throw failure(detail::text(s.name, ", ", wanted.how, " at call ", wanted.at, ": ", what));
  };
  const auto well = [&](const char* what, const std::function<void()>& f) {
    const ended e = in_process(f);
    if (e.code != 0) fail(std::string(what) + " fails: " + e.said);
    return e.said;
  };
  const auto state = [&] {
    const fault at = std::exchange(wanted, {});
    const ended e = in_process([&] { std::printf("%s", s.state(room).c_str()); });
    wanted = at;
    if (e.code != 0) fail("what was there doesn't load, and nothing new either: " + e.said);
    return e.said;
  };
  const auto save_well = [&] {
    const fault at = std::exchange(wanted, {});
    const std::string calls = well("saving", [&] {
      s.save(room);
      std::printf("\n%s", of_shim<const char*()>("weft_shim_calls")());
    });
    wanted = at;
    return calls.substr(calls.rfind('\n') + 1);
  };
  fs::remove_all(before), fs::create_directories(before);
  wanted = {};
  well("beginning", [&] { s.begin(before); });
  begin();
  std::set<std::string> sound;
  if (s.half) {
    well("half a save", [&] { s.half(room); });
    sound.insert(state());
    begin();
  }
  const std::string old = state(), calls = save_well(), whole = state(), names = names_in(room);
  sound.insert(old), sound.insert(whole);
  if (old == whole) fail("old and new can't be told apart");
  int points = 0, were_new = 0, number = 0;
  for (const char* how : {"kill", "broken", "full", "short"})
    for (int at = 1; at <= static_cast<int>(calls.size()); ++at) {
      const char kind = calls[static_cast<std::size_t>(at - 1)];
      const bool writes = kind == 'w', fails = *how == 'k' || (*how == 'b' && kind != 'c') ||
                                               (*how == 'f' && (writes || kind == 's')) || (*how == 's' && writes);
      if (!fails || number++ % stride != 0) continue;
      wanted = {at, how};
      begin();
      const ended e = in_process([&] { s.save(room); });
      ++points;
      if (e.code != 0 && e.code != 1 && !(e.code == 99 && *how == 'k'))
        fail("the save ended by " + std::to_string(e.code) + ": " + e.said);
      const std::string is = state();
      if (!sound.contains(is)) fail("what loads is neither the old nor the new: " + is);
      were_new += is == whole;
      if (e.code == 0 && is != whole && e.said.empty()) fail("nothing was saved, and nothing said");
      if (e.code == 1 && e.said.find("the file ") == e.said.npos && e.said.find("the folder ") == e.said.npos &&
          e.said.find(room) == e.said.npos)
        fail("its error names no file: " + e.said);
      save_well();
      if (state() != whole) fail("the next save isn't what it would have been");
      // A run that has come to its end saves no more, and so removes nothing.
      if (names_in(room) != names && !(s.half && is == whole))
        fail("the next save leaves " + names_in(room) + ", and alone " + names);
    }
  std::printf("%s: %zu calls, %d points, %d of them with the new one\n", s.name, calls.size(), points, were_new);
  std::fflush(stdout);
  all_points += points, all_new += were_new;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  const std::int64_t one = 1 << 30, several = 2000;
  try {
    for (const scenario& s :
         {one_checkpoint(), kept_checkpoints(), folder_over("several files over one", one, several),
          folder_over("several files over several", several, several),
          folder_over("one file over several", several, one), folder_over("one file over one", one, one)})
      if (given.size() < 3 || given[2] == s.name) run(s, given.at(0), std::stoi(given.at(1)));
    std::printf("%d points, %d of them with the new one\n", all_points, all_new);
    return all_points >= 200 && all_new > 20 && all_new < all_points / 2 ? 0 : 1;
  } catch (const std::exception& e) {
    std::printf("FAULT: %s\n", e.what());
    return 1;
  }
}
