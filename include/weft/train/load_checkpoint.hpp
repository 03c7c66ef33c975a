// Going on from a checkpoint, under the strategy that wrote it or another. Invariant: a trainer is set as a whole, or
// stays as it was.
#pragma once

#include <optional>

#include <weft/io/pruned_parts.hpp>
#include <weft/io/weight_names.hpp>
#include <weft/train/checkpoint_manifest.hpp>
#include <weft/train/checkpoint_tensors.hpp>
#include <weft/train/trainer.hpp>

namespace weft {
namespace detail {

/// Sets a store's weights from a checkpoint that holds nothing else; adapters stay as they are.
template <class Store>
void load_weights_alone(context& ctx, Store& store, const safetensors& files) {
  load_by(
      ctx, store, files, weight_names{},
      [](const parameter_record& p) { return std::vector{own_tensor("weights/" + p.name, p.global)}; },
      [](const parameter_record&) {});
}

/// The state beside the store; none where the checkpoint is of weights alone.
template <class Store>
std::optional<trainer_state> load_checkpoint_of(context& ctx, Store& store, const std::string& optimizer,
                                                const std::string& folder) {
  using backend = typename Store::backend;
  checkpoint_manifest manifest;
  std::optional<safetensors> files;
  const auto numbers = [&](const char* kind, const parameter_record& p) {
    return mapped_numbers(*files, p.name, p.global, {own_tensor(kind + p.name, p.global)});
  };
  on_all_or_none(ctx, [&] {  // nothing is set before everything is known to be there
    require(!folder.empty(), "the folder of a checkpoint to load has no name: give it one");
    const goes_on_with who{optimizer, ctx.seed};
    manifest = read_manifest(folder + "/manifest.json", &who);
    files.emplace(open_checkpoint_file(folder, manifest.files));
  });
  if (manifest.weights_alone) return load_weights_alone(ctx, store, *files), std::nullopt;
  on_all_or_none(ctx, [&] {
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
  return manifest.state;
}

}  // namespace detail

/// Sets a trainer's state from a checkpoint of the same model and optimizer, under whatever strategy and number of
/// ranks it was written. All ranks call it, and see the folder; each reads what it keeps. Throws weft::file_error
/// naming what is missing, of another size or another optimizer's, or that the folder's two files are of two
/// checkpoints, and then leaves the trainer as it was. Under the same strategy the run goes on with the same bits. One
/// of weights alone (pretrained_to_checkpoint) fits every optimizer, seed and form of weights; moments, state and
/// adapters stay as they are.
template <class Trainer>
void load_checkpoint(context& ctx, Trainer& t, const std::string& folder) {
  if (const auto state = detail::load_checkpoint_of(ctx, t.store(), detail::optimizer_text(t.optimizer()), folder))
    t.resume(*state);
}

}  // namespace weft
