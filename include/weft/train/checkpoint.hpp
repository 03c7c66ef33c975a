// A run's state in a folder; load_checkpoint.hpp goes on from it. Invariant: a checkpoint has its name once it is
// whole; until then the one before is there.
#pragma once

#include <chrono>
#include <future>
#include <optional>

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>
#include <weft/io/save_weights.hpp>
#include <weft/train/load_checkpoint.hpp>

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
  checkpoint_under_way(context& ctx, const std::string& folder, detail::checkpoint_manifest manifest,
                       std::unique_ptr<detail::output_bytes> numbers)
      : ctx_(&ctx),
        folder_(folder),
        making_(detail::unfinished(folder)),
        manifest_(std::move(manifest)),
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
        const std::string path = making_ + '/' + detail::numbers_file;
        const safetensors_header tensors = read_safetensors_header({numbers_->data(), numbers_->size()}, path);
        detail::finish_output(path);
        detail::write_manifest(making_ + "/manifest.json", manifest_, tensors);
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
  detail::checkpoint_manifest manifest_;
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

/// Makes the folder's files, and puts what all ranks write into their memory.
template <class Backend>
checkpoint_under_way begin_files(context& ctx, checkpoint_manifest manifest, const std::string& folder,
                                 const std::vector<outgoing>& all) {
  std::string making, numbers;
  std::map<std::string, std::string> metadata;
  namespace fs = std::filesystem;
  on_all_or_none(ctx, [&] {
    making = unfinished(folder), numbers = making + '/' + numbers_file;
    metadata[saved_key] = manifest.saved;
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
    auto file = fill_tensors<Backend>(ctx, numbers, all, std::move(metadata));
    on_all_or_none(ctx, [&] { made.emplace(ctx, folder, std::move(manifest), std::move(file)); });
  } catch (...) {
    remove_unfinished(ctx, making);
    throw;
  }
  return std::move(*made);
}

template <class Store>
checkpoint_under_way begin_checkpoint_of(context& ctx, Store& store, checkpoint_manifest manifest,
                                         const std::string& folder) {
  std::vector<outgoing> all;
  on_all_or_none(ctx, [&] {
    require(!folder.empty(), "the folder of a checkpoint to write has no name: give it one");
    store.each_stored([](const stored_parameter& p) {
      require_numbers(p.record, p.has_numbers);
      require_unmerged(p.record, "a checkpoint");
    });
    all = outgoing_state(ctx, store);
  });
  return begin_files<typename Store::backend>(ctx, std::move(manifest), folder, all);
}

/// The configuration of a model of Hugging Face's families, as these write it; of others nothing.
template <class Model>
std::string config_of_family(const Model& model, dtype type) {
  if constexpr (requires { write_config(model.config(), type); }) {
    try {
      return write_config(model.config(), type);
    } catch (const failure&) {  // no family has all that it has
    }
  }
  return {};
}

}  // namespace detail

/// Copies a trainer's state to the memory of a folder's files, and returns while the disk still takes it: the run may
/// go on. See save_checkpoint. Throws where another save of this folder isn't finished.
template <class Trainer>
checkpoint_under_way begin_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  using strategy = typename Trainer::strategy;
  detail::checkpoint_manifest manifest;
  detail::on_all_or_none(ctx, [&] {
    manifest = {t.state(), detail::optimizer_text(t.optimizer()), ctx.seed,
                detail::config_of_family(t.model(), dtype_of<typename Trainer::store_type::master>)};
    manifest.saved = detail::saved_text(manifest.state, manifest.seed);
    if constexpr (strategy::projections::adapts) manifest.adapters = strategy::projections::scale;
  });
  return detail::begin_checkpoint_of(ctx, t.store(), std::move(manifest), folder);
}

/// Writes a trainer's state to a folder: state.safetensors, with weights and moments as they are kept, by the
/// parameters' names and global extents, and last manifest.json, which says what is where in that file, and all that is
/// a number or a text. The folder is made; one of this name must not be there. All
/// ranks call it, and see the folder. Throws weft::failure on all of them when something can't be written on any.
template <class Trainer>
void save_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  begin_checkpoint(ctx, t, folder).finish();
}

}  // namespace weft
