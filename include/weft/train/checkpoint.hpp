// A run's state in a folder, and going on from it under the same strategy or another. Invariant: a checkpoint has its
// name once it is whole; until then the one before is there.
#pragma once

#include <chrono>
#include <future>
#include <optional>

#include <weft/io/pruned_parts.hpp>
#include <weft/io/save_weights.hpp>
#include <weft/train/checkpoint_manifest.hpp>
#include <weft/train/checkpoint_tensors.hpp>
#include <weft/train/trainer.hpp>

namespace weft {

namespace detail {

/// Removes what there is of a checkpoint that failed. The first rank does.
inline void remove_unfinished(const context& ctx, const std::string& making) {
  try {
    std::error_code none;
    if (ctx.is_first()) std::filesystem::remove_all(making, none);
  } catch (const std::bad_alloc&) {  // the next save of this name does, or the next run
  }
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
        making_(detail::unfinished(folder)),
        state_(state),
        optimizer_(std::move(optimizer)),
        numbers_(std::move(numbers)),
        synced_(std::async(std::launch::async, [file = numbers_.get()] { file->sync(); })) {}

  /// Whether this rank's numbers are on the disk, or can't be.
  bool is_synced() const {
    return !synced_.valid() || synced_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  /// Waits for the disk; then the folder has its name. All ranks call it. Throws weft::failure on all of them when
  /// something can't be written on any; what was written takes no space then. Throws when it is called again.
  void finish() {
    context& ctx = *ctx_;
    require(synced_.valid(), "the checkpoint ", folder_, " was finished before, or failed; begin another one");
    try {
      detail::on_all_or_none(ctx, [&] { synced_.get(); });
      detail::on_all_or_none(ctx, [&] {
        if (!ctx.is_first()) return;
        detail::finish_output(making_ + "/state.safetensors");
        detail::write_manifest(making_ + "/manifest.json", state_, optimizer_, ctx.seed);
        if (std::rename(making_.c_str(), folder_.c_str()) != 0) detail::fail_of_file(folder_, "written", errno);
        detail::sync_folder_of(folder_);
      });
    } catch (...) {
      detail::remove_unfinished(ctx, making_);
      throw;
    }
    numbers_.reset();
  }

 private:
  context* ctx_;
  std::string folder_, making_;
  trainer_state state_;
  std::string optimizer_;
  std::unique_ptr<detail::output_bytes> numbers_;
  std::future<void> synced_;  // destroyed first: it waits
};

namespace detail {

/// What this rank writes of a store's weights and moments, as they are kept.
template <class Store>
std::vector<outgoing> outgoing_state(const context& ctx, Store& store) {
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
  return all;
}

template <class Store>
checkpoint_under_way begin_checkpoint_of(context& ctx, Store& store, const trainer_state& state,
                                         const std::string& optimizer, const std::string& folder) {
  std::string making, numbers;
  std::vector<outgoing> all;
  on_all_or_none(ctx, [&] {
    store.each_stored([](const stored_parameter& p) {
      require_numbers(p.record, p.has_numbers);
      require_unmerged(p.record, "a checkpoint");
    });
    all = outgoing_state(ctx, store);
    making = unfinished(folder), numbers = making + "/state.safetensors";
  });
  namespace fs = std::filesystem;
  on_all_or_none(ctx, [&] {
    if (!ctx.is_first()) return;
    std::error_code why;
    require(!fs::exists(folder, why), "the folder ", folder,
            " is there already; save the checkpoint under another name");
    require(!is_being_written(numbers), "the folder ", folder,
            " is being written by a save that isn't finished: finish() it first, or save under another name");
    fs::remove_all(making, why);  // of a run that ended while it wrote
    make_folder(making);
  });
  std::optional<checkpoint_under_way> made;
  try {
    auto file = fill_tensors<typename Store::backend>(ctx, numbers, all);
    on_all_or_none(ctx, [&] { made.emplace(ctx, folder, state, optimizer, std::move(file)); });
  } catch (...) {
    remove_unfinished(ctx, making);
    throw;
  }
  return std::move(*made);
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
    store.each_place([&](const stored_parameter& p) {
      require_format(*files, p.record, folder);
      each_quantised_part(p, [&](const char* kind, const local_array& part, const placed_slice& at, std::int64_t) {
        quantised_part(*files, kind, p.record, at, part.type);
      });
      if (!p.is_quantised())
        refuse_more_heads(
            *files, p.record,
            "load the checkpoint into the whole model's trainer, and take over what is kept by copy_pruned",
            [&](const shape& global) { return own_tensor("weights/" + p.record.name, global); });
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
/// go on. See save_checkpoint. Throws where another save of this folder isn't finished.
template <class Trainer>
checkpoint_under_way begin_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  std::string optimizer;
  detail::on_all_or_none(ctx, [&] { optimizer = detail::optimizer_text(t.optimizer()); });
  return detail::begin_checkpoint_of(ctx, t.store(), t.state(), optimizer, folder);
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
