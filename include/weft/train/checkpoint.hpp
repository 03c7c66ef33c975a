// A run's state in a folder, and going on from it under the same strategy or another. Invariant: a checkpoint has its
// name once it is whole; until then the one before is there.
#pragma once

#include <chrono>
#include <future>

#include <weft/io/json_fields.hpp>
#include <weft/io/save_weights.hpp>
#include <weft/train/checkpoint_tensors.hpp>
#include <weft/train/trainer.hpp>

namespace weft {

namespace detail {

inline void write_manifest(const std::string& path, const trainer_state& s, const std::string& optimizer,
                           std::uint64_t seed) {
  const nlohmann::ordered_json said{{"version", 1},
                                    {"optimizer", optimizer},
                                    {"updates", s.updates},
                                    {"batches", s.batches},
                                    {"passes", s.passes},
                                    {"loss_scale", s.loss_scale},
                                    {"good_steps", s.good_steps},
                                    {"skipped_steps", s.skipped_steps},
                                    {"losses_mean", s.watched.losses.mean},
                                    {"losses_variance", s.watched.losses.variance},
                                    {"losses_seen", s.watched.losses.seen},
                                    {"bad_in_a_row", s.watched.in_a_row},
                                    {"overflows_in_a_row", s.watched.overflows},
                                    {"seed", seed}};
  const std::string content = said.dump(2) + '\n';
  begin_output(path, content, content.size());
  output_bytes(path).sync();
  finish_output(path);
}
inline trainer_state read_manifest(const std::string& path, const std::string& optimizer, std::uint64_t seed) {
  const nlohmann::json said = read_json(path);
  json_fields f(said, path);
  f.only("version", 1);
  if (const std::string wrote = f.string("optimizer", optimizer); wrote != optimizer)
    f.fail("optimizer", wrote,
           "\"" + optimizer +
               "\", this trainer's: moments of one optimizer mean nothing to another. Go on with the one that wrote "
               "it, or "
               "begin anew from its weights alone, by save_weights and load_weights");
  const auto count = [&](const char* name, std::int64_t most = std::int64_t{1} << 62) {
    const std::int64_t n = f.whole_number(name);
    if (n < 0 || n > most) f.fail(name, n, text("a whole number from 0 to ", most));
    return n;
  };
  const auto small_count = [&](const char* name) { return static_cast<int>(count(name, 1 << 30)); };
  trainer_state s;
  s.updates = count("updates"), s.batches = count("batches");
  s.passes = static_cast<std::uint64_t>(count("passes"));
  s.loss_scale = f.number("loss_scale");
  if (!(s.loss_scale >= loss_scale::lowest && s.loss_scale <= loss_scale::highest))
    f.fail("loss_scale", s.loss_scale, "a number from 2^-24 to 2^24");
  s.good_steps = small_count("good_steps");
  s.skipped_steps = small_count("skipped_steps");
  s.watched.losses = {f.number("losses_mean"), f.number("losses_variance"), count("losses_seen")};
  s.watched.in_a_row = small_count("bad_in_a_row");
  s.watched.overflows = small_count("overflows_in_a_row");
  const nlohmann::json* const seeded = f.find("seed");
  if (!seeded || *seeded != seed)
    f.fail("seed", seeded ? *seeded : nlohmann::json(),
           std::to_string(seed) + ", the seed of this launch, for the same masks and batches");
  f.finish();
  return s;
}

}  // namespace detail

/// A checkpoint that is being written: what it holds is copied, and goes to the disk while the run goes on. All ranks
/// get it from begin_checkpoint, and finish it.
class checkpoint_under_way {
 public:
  checkpoint_under_way(context& ctx, const std::string& folder, const trainer_state& state, std::string optimizer,
                       std::unique_ptr<detail::output_bytes> numbers)
      : ctx_(&ctx),
        folder_(folder),
        state_(state),
        optimizer_(std::move(optimizer)),
        numbers_(std::move(numbers)),
        synced_(std::async(std::launch::async, [file = numbers_.get()] { file->sync(); })) {}

  /// Whether this rank's numbers are on the disk, or can't be.
  bool is_synced() const {
    return !synced_.valid() || synced_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  /// Waits for the disk; then the folder has its name. All ranks call it. Throws weft::failure on all of them when
  /// something can't be written on any.
  void finish() {
    context& ctx = *ctx_;
    const std::string making = detail::unfinished(folder_);
    detail::on_all_or_none(ctx, [&] { synced_.get(); });
    detail::on_all_or_none(ctx, [&] {
      if (!ctx.is_first()) return;
      detail::finish_output(making + "/state.safetensors");
      detail::write_manifest(making + "/manifest.json", state_, optimizer_, ctx.seed);
      if (std::rename(making.c_str(), folder_.c_str()) != 0) detail::fail_of_file(folder_, "written", errno);
      detail::sync_folder_of(folder_);
    });
    numbers_.reset();
  }

 private:
  context* ctx_;
  std::string folder_;
  trainer_state state_;
  std::string optimizer_;
  std::unique_ptr<detail::output_bytes> numbers_;
  std::future<void> synced_;  // destroyed first: it waits
};

namespace detail {

template <class Store>
checkpoint_under_way begin_checkpoint_of(context& ctx, Store& store, const trainer_state& state,
                                         const std::string& optimizer, const std::string& folder) {
  on_all_or_none(ctx, [&] {
    store.each_stored([](const stored_parameter& p) {
      require_numbers(p.record, p.has_numbers);
      require_unmerged(p.record, "a checkpoint");
    });
  });
  const std::string making = unfinished(folder);
  namespace fs = std::filesystem;
  on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    std::error_code why;
    require(!fs::exists(folder, why), "the folder ", folder,
            " is there already; save the checkpoint under another name");
    fs::remove_all(making, why);  // of a run that ended while it wrote
    make_folder(making);
  });
  std::vector<outgoing> all;
  store.each_stored([&](const stored_parameter& p) {
    if (!writes(ctx, p)) return;
    const auto add = [&](const char* kind, const local_array& numbers) {
      if (numbers)
        all.push_back(
            {numbers, p.record.at, p.begin, numbers.type, {own_tensor(kind + p.record.name, p.record.global)}});
    };
    add("weights/", p.weight), add("first/", p.first), add("second/", p.second);
    each_quantised_part(p, [&](const char* kind, const local_array& part, const placed_slice& at, std::int64_t begin) {
      if (kind != quantised_scales || is_at_the_beginning(p))
        all.push_back({part, at, begin, part.type, {flat_tensor(kind + p.record.name, whole_of(at))}});
    });
  });
  using backend = typename Store::backend;
  return {ctx, folder, state, optimizer, fill_tensors<backend>(ctx, making + "/state.safetensors", all)};
}

/// The state beside the store.
template <class Store>
trainer_state load_checkpoint_of(context& ctx, Store& store, const std::string& optimizer, const std::string& folder) {
  using backend = typename Store::backend;
  trainer_state state;
  std::optional<safetensors> files;
  const auto numbers = [&](const char* kind, const parameter_record& p) {
    return mapped_numbers(*files, p.name, p.global, {own_tensor(kind + p.name, p.global)});
  };
  on_all_or_none(ctx, [&] {  // nothing is set before everything is known to be there
    state = read_manifest(folder + "/manifest.json", optimizer, ctx.seed);
    files.emplace(folder + "/state.safetensors");
    store.each_stored([&](const stored_parameter& p) {
      require_format(*files, p.record, folder);
      each_quantised_part(p, [&](const char* kind, const local_array& part, const placed_slice& at, std::int64_t) {
        quantised_part(*files, kind, p.record, at, part.type);
      });
      if (!p.is_quantised()) numbers("weights/", p.record);
      if (p.first) numbers("first/", p.record);
      if (p.second) numbers("second/", p.record);
    });
  });
  on_all_or_none(ctx, [&] {
    store.load_parameters([&](const parameter_record& p) -> std::optional<mapped_numbers> {
      if (p.stored.format != weight_format::plain) return {};
      return numbers("weights/", p);
    });
    store.load_quantised([&](const stored_parameter& p) {
      each_quantised_part(p, [&](const char* kind, const local_array& part, const placed_slice& at,
                                 std::int64_t begin) {
        const mapped_numbers from = quantised_part(*files, kind, p.record, at, part.type);
        visit_stored(part.type, [&]<class T>(T) {
          write_by_host<backend, T>(ctx, part, [&](T* to) { from.template read<T>(at, begin, part.elements(), to); });
        });
      });
      return true;
    });
    store.each_stored([&](const stored_parameter& p) {
      const auto set = [&](const char* kind, const local_array& moment) {
        if (!moment) return;
        const mapped_numbers from = numbers(kind, p.record);
        visit_floating(moment.type, [&]<class T>(T) {
          write_by_host<backend, T>(ctx, moment,
                                    [&](T* to) { from.template read<T>(p.record.at, p.begin, moment.elements(), to); });
        });
      };
      set("first/", p.first), set("second/", p.second);
    });
  });
  return state;
}

}  // namespace detail

/// Copies a trainer's state to the memory of a folder's files, and returns while the disk still takes it: the run may
/// go on. See save_checkpoint.
template <class Trainer>
checkpoint_under_way begin_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  return detail::begin_checkpoint_of(ctx, t.store(), t.state(), detail::optimizer_text(t.optimizer()), folder);
}

/// Writes a trainer's state to a folder: state.safetensors, with weights and moments as they are kept, by the
/// parameters' names and global extents, and manifest.json. The folder is made; one of this name must not be there. All
/// ranks call it, and see the folder. Throws weft::failure on all of them when something can't be written on any.
template <class Trainer>
void save_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  begin_checkpoint(ctx, t, folder).finish();
}

/// Sets a trainer's state from a checkpoint of the same model and optimizer, under whatever strategy and number of
/// ranks it was written. All ranks call it, and see the folder; each reads what it keeps. Throws weft::file_error
/// naming what is missing, of another size or another optimizer's, and then leaves the trainer as it was. Under the
/// same strategy the run goes on with the same bits.
template <class Trainer>
void load_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  t.resume(detail::load_checkpoint_of(ctx, t.store(), detail::optimizer_text(t.optimizer()), folder));
}

}  // namespace weft
