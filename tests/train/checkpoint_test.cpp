// Runs that end and go on: under the same strategy with the same bits, under any other to rounding; and checkpoints
// that become folders of Hugging Face's, and these checkpoints.
#include <fstream>
#include <ratio>

#include <doctest/doctest.h>

#include <weft/train/convert_checkpoint.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "small_batches.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

constexpr gpt2_config small{.layers = 4, .hidden = 24, .heads = 6, .vocab = 31, .max_seq = 8, .dropout = 0.1};
constexpr int steps = 6;

// The losses of steps begin + 1 ... of a run of `steps`, each in a run of its own; saves after the step `save_at`.
template <class S, class Optimizer>
std::vector<double> losses(const degrees& ranks, const std::string& load, int begin, const std::string& save,
                           int save_at) {
  std::vector<double> out;
  launch<S>(ranks, [&](context& ctx) {
    gpt2<S> model(ctx, small);
    Optimizer optimizer{};
    trainer t(ctx, model, optimizer);
    if (!load.empty()) load_checkpoint(ctx, t, load);
    const weft_test::small_batches data{&ctx};
    for (int step = begin; step < steps; ++step) {
      const training_result r = t.run(data, {.steps = step + 1,
                                             .begin = step,
                                             .batch = 6,
                                             .micro_batches = 2,
                                             .schedule = {.warmup = 2},
                                             .validation_sequences = 0,
                                             .print = false});
      if (ctx.is_first()) out.push_back(r.loss);
      if (step + 1 == save_at) save_checkpoint(ctx, t, save);
    }
  });
  return out;
}

// Muon with an owner for each matrix: its checkpoints are Muon's.
template <class Optimizer>
struct with_owners {
  using type = Optimizer;
};
template <class Others>
struct with_owners<by_shape<muon, Others>> {
  using type = by_shape<one_owner<muon>, Others>;
};

struct way {
  const char* name;
  degrees ranks;
  std::vector<double> (*run)(const degrees&, const std::string&, int, const std::string&, int);
};

template <class Optimizer>
std::vector<way> ways() {
  using plain = strategy<mesh<dp, tp, pp>, fp64>;
  return {{"one rank", {}, losses<plain, Optimizer>},
          {"dp 3", {.dp = 3}, losses<plain, Optimizer>},
          {"tp 2 x pp 2", {.tp = 2, .pp = 2}, losses<plain, Optimizer>},
          {"zero1, dp 3", {.dp = 3}, losses<strategy<mesh<dp, tp, pp>, fp64, zero1>, Optimizer>},
          {"zero3, dp 3 x tp 2",
           {.dp = 3, .tp = 2},
           losses<strategy<mesh<dp, tp, pp>, fp64, zero3>, typename with_owners<Optimizer>::type>}};
}

template <class Optimizer>
void check_pairs() {
  const weft_test::temporary_folder here;
  const auto all = ways<Optimizer>();
  std::vector<std::vector<double>> unbroken;
  for (const way& w : all) unbroken.push_back(w.run(w.ranks, "", 0, here / w.name, 3));
  for (std::size_t from = 0; from < all.size(); ++from)
    for (std::size_t to = 0; to < all.size(); ++to) {
      const std::string saved = all[from].name, resumed = all[to].name;
      CAPTURE(saved);
      CAPTURE(resumed);
      const std::vector<double> rest = all[to].run(all[to].ranks, here / saved, 3, "", 0);
      REQUIRE(rest.size() == 3);
      for (std::size_t i = 0; i < 3; ++i)
        if (from == to)
          CHECK(rest[i] == unbroken[to][i + 3]);
        else
          CHECK(std::abs(rest[i] - unbroken[0][i + 3]) <= 1e-12 * unbroken[0][i + 3]);
    }
}

}  // namespace

TEST_CASE("what one strategy saves, every other goes on from: AdamW") { check_pairs<adamw>(); }
TEST_CASE("what one strategy saves, every other goes on from: Muon and AdamW") { check_pairs<by_shape<muon, adamw>>(); }

TEST_CASE("a loss scale, and the steps that it took, go on") {
  using S = strategy<mesh<dp>, fp16_mixed, zero2>;
  const weft_test::temporary_folder here;
  const auto unbroken = losses<S, adamw>({.dp = 3}, "", 0, here / "c", 3);
  CHECK(losses<S, adamw>({.dp = 3}, here / "c", 3, "", 0) == std::vector(unbroken.begin() + 3, unbroken.end()));
}

TEST_CASE("moments in bf16 go on with the same bits") {
  using S = strategy<mesh<dp>, bf16_moments, zero2>;
  const weft_test::temporary_folder here;
  const auto unbroken = losses<S, adamw>({.dp = 3}, "", 0, here / "c", 3);
  CHECK(losses<S, adamw>({.dp = 3}, here / "c", 3, "", 0) == std::vector(unbroken.begin() + 3, unbroken.end()));
}

TEST_CASE("dropout before adapters goes on") {
  using S = strategy<mesh<dp>, fp64, zero2, lora<2, 4, std::ratio<1, 5>>>;
  const weft_test::temporary_folder here;
  const auto unbroken = losses<S, adamw>({.dp = 3}, "", 0, here / "c", 3);
  CHECK(losses<S, adamw>({.dp = 3}, here / "c", 3, "", 0) == std::vector(unbroken.begin() + 3, unbroken.end()));
}

TEST_CASE("a checkpoint that doesn't fit is refused with what is amiss") {
  using S = strategy<mesh<dp>, fp64>;
  const weft_test::temporary_folder here;
  const std::string folder = here / "c";
  losses<S, adamw>({}, "", 0, folder, 3);
  const auto said = [&](auto optimizer, std::uint64_t seed, const std::string& name) {
    return said_by([&] {
      launch<S>({.dp = 2},
                [&](context& ctx) {
                  gpt2<S> model(ctx, small);
                  trainer t(ctx, model, optimizer);
                  load_checkpoint(ctx, t, name);
                },
                {.seed = seed});
    });
  };
  const std::uint64_t seed = launch_options{}.seed;
  CHECK(said(adamw{}, seed, folder) == "nothing");
  CHECK(said(adamw{}, seed + 1, folder).find("has to be " + std::to_string(seed + 1) + ", the seed of this launch") !=
        std::string::npos);
  CHECK(said(sgd{}, seed, folder).find("optimizer is \"AdamW\", and has to be \"SGD\", this trainer's") !=
        std::string::npos);
  CHECK(said(by_shape{muon{}, adamw{}}, seed, folder).find("has to be \"Muon beside AdamW\"") != std::string::npos);
  CHECK(said(adamw{}, seed, here / "none").find("none/manifest.json can't be read") != std::string::npos);
  const auto with = [&](const std::string& field, const std::string& number) {  // in its manifest
    const std::string changed = here / "changed";
    std::filesystem::remove_all(changed);
    std::filesystem::copy(folder, changed);
    nlohmann::json manifest = nlohmann::json::parse(std::ifstream(changed + "/manifest.json"));
    manifest.at(field) = nlohmann::json::parse(number);
    std::ofstream(changed + "/manifest.json") << manifest;
    return said(adamw{}, seed, changed);
  };
  CHECK(with("passes", "7") == "nothing");
  for (const char* field : {"updates", "batches", "passes", "good_steps", "skipped_steps", "losses_seen",
                            "bad_in_a_row", "overflows_in_a_row"})
    CHECK(with(field, "-5").find(std::string(field) + " is -5, and has to be a whole number from 0 to") !=
          std::string::npos);
  CHECK(with("good_steps", "4294967297").find("good_steps is 4294967297, and has to be") != std::string::npos);
  for (const char* scale : {"-5", "0", "1e300"})
    CHECK(with("loss_scale", scale).find("and has to be a number from 2^-24 to 2^24") != std::string::npos);
  std::filesystem::resize_file(folder + "/state.safetensors", 1000);
  CHECK(said(adamw{}, seed, folder).find("is no sound safetensors file: its header ends at byte") != std::string::npos);
  launch<S>({.dp = 2}, [&](context& ctx) {
    gpt2<S> model(ctx, small);
    trainer t(ctx, model);
    CHECK(said_by([&] { save_checkpoint(ctx, t, folder); }).find("is there already") != std::string::npos);
  });
}

namespace {

// The weights' bytes that a trainer of one rank saves which has loaded this checkpoint.
template <class S, class Optimizer>
std::string saved_after(const degrees& ranks, const std::string& checkpoint, const std::string& folder,
                        std::uint64_t seed = launch_options{}.seed) {
  launch<S>(ranks,
            [&](context& ctx) {
              gpt2<S> model(ctx, small);
              trainer t(ctx, model, Optimizer{});
              load_checkpoint(ctx, t, checkpoint);
              save_pretrained(ctx, model, t.store(), folder);
            },
            {.seed = seed});
  return read_file(folder + "/model.safetensors");
}

// A checkpoint of each of two steps, and a copy of one that a test changes.
struct two_checkpoints {
  weft_test::temporary_folder here;
  std::string third = here / "step 3", fourth = here / "step 4", changed = here / "changed";
  using S = strategy<mesh<dp>, fp64>;
  two_checkpoints() {
    losses<S, adamw>({}, "", 0, third, 3);
    losses<S, adamw>({}, "", 0, fourth, 4);
  }
  template <class F>
  std::string after(F&& change) const {  // what is said of the copy
    std::filesystem::remove_all(changed);
    std::filesystem::copy(third, changed);
    change(changed);
    const std::string converted = said_by([&] { checkpoint_to_pretrained(changed, here / "out"); });
    const std::string loaded = said_by([&] {
      launch<S>({.dp = 2}, [&](context& ctx) {
        gpt2<S> model(ctx, small);
        trainer t(ctx, model);
        load_checkpoint(ctx, t, changed);
      });
    });
    CHECK(converted == loaded);
    return loaded;
  }
  template <class F>
  std::string with_manifest(F&& change) const {
    return after([&](const std::string& folder) {
      nlohmann::json manifest = read_json(folder + "/manifest.json");
      change(manifest);
      write_file(folder + "/manifest.json", manifest.dump());
    });
  }
};

}  // namespace

TEST_CASE("a manifest names its file and every tensor's place there, and what isn't so is refused") {
  const two_checkpoints two;
  const auto has = [](const std::string& said, const char* what) {
    CAPTURE(said);
    CHECK(said.find(what) != said.npos);
  };
  const nlohmann::json manifest = read_json(two.third + "/manifest.json");
  const nlohmann::json& file = manifest.at("files").at("state.safetensors");
  const std::string bytes = read_file(two.third + "/state.safetensors");
  const safetensors numbers(two.third + "/state.safetensors");
  CHECK(file.at("tensors").size() == numbers.tensors().size());
  for (const auto& [name, at] : file.at("tensors").items()) {  // by the manifest alone
    const auto begin = at.at("bytes").at(0).get<std::size_t>(), end = at.at("bytes").at(1).get<std::size_t>();
    const mapped_tensor* const t = numbers.find(name);
    REQUIRE(t);
    CHECK(bytes.substr(begin, end - begin) == std::string_view(t->data, t->entry->end - t->entry->begin));
    CHECK(at.at("dtype") == "F64");
  }
  CHECK(file.at("tensors").at("first/layers.3.up").at("shape") == nlohmann::json({96, 24}));

  CHECK(two.after([](const std::string&) {}) == "nothing");
  const auto rm = [&](const char* name) {
    return two.after([&](const std::string& f) { std::filesystem::remove(f + '/' + name); });
  };
  has(rm("state.safetensors"), "changed lacks the file state.safetensors, which holds");
  has(rm("manifest.json"), "changed/manifest.json can't be read");
  const auto exchanged = [&](const char* name) {
    return two.after([&](const std::string& f) {
      std::filesystem::copy_file(two.fourth + '/' + name, f + '/' + name,
                                 std::filesystem::copy_options::overwrite_existing);
    });
  };
  has(exchanged("state.safetensors"), "changed/state.safetensors was saved at batch 4, update 4, seed");
  has(exchanged("manifest.json"), "changed/state.safetensors was saved at batch 3, update 3, seed");
  using json = nlohmann::json;
  const auto tensors = [](json& m) -> json& { return m.at("files").at("state.safetensors").at("tensors"); };
  has(two.with_manifest([&](json& m) { tensors(m).erase("second/layers.0.up"); }),
      "has tensor \"second/layers.0.up\" as {\"bytes\":[");
  has(two.with_manifest([&](json& m) { tensors(m)["second/other"] = tensors(m)["second/layers.0.up"]; }),
      "has no tensor \"second/other\", which manifest.json beside it names");
  has(two.with_manifest([&](json& m) {
    tensors(m)["weights/layers.0.up"]["shape"] = {24, 96};
  }),
      "has tensor \"weights/layers.0.up\" as {\"bytes\":[");
  has(two.with_manifest([&](json& m) { tensors(m)["weights/layers.0.up"]["bytes"][0] = 0; }),
      "has tensor \"weights/layers.0.up\" as {\"bytes\":[");
  has(two.with_manifest([&](json& m) { tensors(m) = 3; }), "files.state.safetensors.tensors is 3, and has to be");
  has(two.with_manifest([&](json& m) { m["files"]["more.safetensors"] = 3; }),
      "has fields that aren't known here: files.more.safetensors");
  has(two.with_manifest([&](json& m) { m["files"] = json::array(); }), "manifest.json: files is no object of JSON");
  has(two.with_manifest([&](json& m) { m.erase("files"); }), "files is null, and has to be what the checkpoint's");
  has(two.with_manifest([&](json& m) { m["version"] = 3; }), "version is 3, and has to be 2");
}

TEST_CASE("a checkpoint of the first version, whose manifest names no files, is read") {
  const two_checkpoints two;
  const auto first = [](nlohmann::json& m) {
    m["version"] = 1;
    m.erase("files"), m.erase("model");
  };
  std::filesystem::copy(two.third, two.changed);
  nlohmann::json manifest = read_json(two.changed + "/manifest.json");
  first(manifest);
  write_file(two.changed + "/manifest.json", manifest.dump());
  CHECK(losses<two_checkpoints::S, adamw>({}, two.changed, 3, "", 0) ==
        losses<two_checkpoints::S, adamw>({}, two.third, 3, "", 0));
  // It doesn't say of which model it is: a folder like it does.
  const std::string said = said_by([&] { checkpoint_to_pretrained(two.changed, two.here / "out"); });
  CHECK(said.find("changed/manifest.json doesn't say of which model the checkpoint is; give a folder of that model") !=
        said.npos);
  checkpoint_to_pretrained(two.third, two.here / "like");
  checkpoint_to_pretrained(two.changed, two.here / "out", dtype::f32, {.like = two.here / "like"});
  CHECK(read_file(two.here / "out/model.safetensors") == read_file(two.here / "like/model.safetensors"));
}

TEST_CASE("a checkpoint of any strategy becomes a folder, and the folder a checkpoint, without a trainer") {
  const weft_test::temporary_folder here;
  const std::vector<way> all = ways<adamw>();
  for (const way& w : all) {
    const std::string name = w.name, checkpoint = here / (name + " saved"), folder = here / (name + " folder");
    CAPTURE(name);
    w.run(w.ranks, "", 2, checkpoint, 3);
    checkpoint_to_pretrained(checkpoint, folder, dtype::f64);
    const std::string bytes = read_file(folder + "/model.safetensors");
    CHECK(bytes == saved_after<strategy<mesh<dp, tp, pp>, fp64>, adamw>({}, checkpoint, here / (name + " by trainer")));
    CHECK(read_file(folder + "/config.json") == read_file(here / (name + " by trainer/config.json")));
    // A run of another seed, optimizer and strategy begins with it.
    const std::string again = here / (name + " again");
    pretrained_to_checkpoint(folder, again);
    CHECK(bytes == saved_after<strategy<mesh<dp, tp, pp>, fp64, zero3>, sgd>({.dp = 3, .tp = 2}, again,
                                                                             here / (name + " by another"), 77));
    if (&w == &all.back())  // on stages too
      CHECK(bytes == saved_after<strategy<mesh<dp, tp, pp>, fp64>, adamw>({.tp = 2, .pp = 2}, again,
                                                                          here / (name + " on stages"), 78));
    CHECK(said_by([&] { pretrained_to_checkpoint(folder, again); }).find("is there already") != std::string::npos);
    CHECK(!std::filesystem::exists(detail::unfinished(again)));
  }
}

TEST_CASE("a checkpoint that lacks a part leaves the trainer as it was") {
  using S = strategy<mesh<dp>, fp64>;
  const weft_test::temporary_folder here;
  const auto make = [](parameter_registry& registry, context& ctx, weight<S, dims<hidden>>& w, auto& v,
                       const char* second) {
    registry.begin_unit("only");
    registry.add(ctx, w, "first", {1, {4}}, {0, 1});
    registry.add(ctx, v, second, {1, {4}}, {0, 2});
  };
  launch<S>({.dp = 2}, [&](context& ctx) {
    const auto through = [&](const char* second, auto&& f) {
      parameter_registry registry;
      weight<S, dims<hidden>> w, v;
      make(registry, ctx, w, v, second);
      parameter_store<cpu_backend, fp64> store(ctx, registry, config_of<replicated>());
      f(store);
    };
    through("second", [&](auto& store) {
      store.load_parameters([](const parameter_record&) { return std::vector<double>(4, 7); });
      detail::checkpoint_manifest manifest;
      manifest.optimizer = "one", manifest.seed = ctx.seed;
      detail::begin_checkpoint_of(ctx, store, std::move(manifest), here / "c").finish();
    });
    through("another", [&](auto& store) {
      CHECK(said_by([&] {
              detail::load_checkpoint_of(ctx, store, "one", here / "c");
            }).find("parameter another is read from tensor weights/another, which the weights don't have") !=
            std::string::npos);
      store.each_parameter([](const parameter_record& p, const auto&, const auto& numbers) {
        CHECK(numbers[0] == (p.name == "first" ? 1 : 2));
      });
    });
  });
}
