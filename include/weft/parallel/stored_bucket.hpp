// What one rank keeps of a bucket's weights: those that operators read, the optimizer's copy, and its moments.
// Invariant: where weights and master weights are the same numbers, they are the same memory.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/parallel/flat_bucket.hpp>

namespace weft::detail {

template <class Backend, class Precision>
struct stored_bucket {
  using compute = typename Precision::compute;
  using master = typename Precision::master;

  flat_bucket flat{};
  flat_range weight_range{}, updated{};
  std::int64_t offset = 0;      // within a unit's gather buffer, where parameters are sharded
  axis_group* group = nullptr;  // of its storage
  local_array weights{}, master_weights{}, first{}, second{};
  request gathering{};

  const bucket_key& key() const { return flat.key; }
  /// A frozen bucket's weights are only those that operators read.
  bool shares_master() const {
    return key().trained && std::is_same_v<compute, master> && key().shards_parameters == key().shards_optimizer;
  }
  /// The axes over which what this rank keeps is a share.
  axis_set storage() const {
    return (key().trained ? key().shards_optimizer : key().shards_parameters) ? key().storage : axis_set();
  }
  /// What this rank updates of a region, or, frozen, keeps.
  flat_range part_of(const flat_region& r) const { return (key().trained ? updated : weight_range).overlap(r); }

  /// Everything that lasts, with initial weights.
  void allocate(context& ctx, int moments) {
    group = flat.group;
    weight_range = flat.kept(key().shards_parameters);
    updated = key().trained ? flat.kept(key().shards_optimizer) : flat_range();
    const auto make = [&](std::int64_t n, dtype type, memory category) { return ctx.make(type, {1, {n}}, category); };
    const std::int64_t n = updated.size();
    if (key().trained) {
      master_weights = make(n, dtype_of<master>, shares_master() ? memory::parameters : memory::optimizer);
      if (moments > 0) first = make(n, dtype_of<master>, memory::optimizer);
      if (moments > 1) second = make(n, dtype_of<master>, memory::optimizer);
      for (const local_array* moment : {&first, &second})
        if (*moment) Backend::zero(ctx.queue<Backend>(), *moment);
      initialise<Backend>(ctx, flat, updated, master_weights.template as<master>());
      if (shares_master()) return void(weights = master_weights);
    }
    weights = make(weight_range.size(), dtype_of<compute>, memory::parameters);
    if (key().trained && weight_range.begin == updated.begin && weight_range.end == updated.end)
      add_converted<Backend, compute, master>(ctx, master_weights, weights, false);
    else
      initialise<Backend>(ctx, flat, weight_range, weights.template as<compute>());
  }

  /// What operators see of `part`, which was updated; null where that is the master weights themselves.
  compute* working(flat_range part) const {
    return shares_master() ? nullptr : weights.template as<compute>() + (part.begin - weight_range.begin);
  }
  /// The new weights are on their way to who reads them, awaited by the unit's next use.
  void publish(std::string_view unit) {
    if (!key().shards_optimizer || key().shards_parameters) return;
    auto* all = weights.template as<compute>();
    const std::int64_t bytes = updated.size() * static_cast<std::int64_t>(sizeof(compute));
    gathering = group->comm.all_gather(all + updated.begin, all, bytes, collective_label{"weights", {}, unit});
  }
  /// The whole bucket is on its way into its place in `unit_buffer`.
  void gather_into(const local_array& unit_buffer, std::string_view unit) {
    gathering = group->comm.all_gather(weights.data, unit_buffer.template as<compute>() + offset, weights.bytes(),
                                       collective_label{"weights", {}, unit});
  }
  /// Where operators read the whole bucket.
  compute* whole(const local_array* unit_buffer) const {
    return key().shards_parameters ? unit_buffer->template as<compute>() + offset : weights.template as<compute>();
  }

  /// The whole bucket, from every rank's share of it.
  local_array gathered(context& ctx, const local_array& share, const collective_label& label) const {
    local_array out = ctx.make(share.type, shape{1, {flat.size}}, memory::buffers);
    group->comm.all_gather(share.data, out.data, share.bytes(), label).wait(ctx.order());
    return out;
  }

  /// A whole frozen bucket's weights as those of others are given out.
  local_array in_master_type(context& ctx, const local_array& whole) const {
    local_array out = ctx.make(dtype_of<master>, shape{1, {flat.size}}, memory::buffers);
    add_converted<Backend, master, compute>(ctx, whole, out, false);
    return out;
  }

  /// What this rank keeps of region r; part: part_of(r), gradients: of that, or null.
  stored_parameter stored(int unit, const flat_region& r, flat_range part,
                          typename Precision::gradient* gradients) const {
    stored_parameter p{unit, *r.parameter, storage(), part.begin - r.begin};
    const shape size{1, {part.size()}};
    const auto slice = [&]<class T>(const local_array& a, std::int64_t begin, T*) {
      return a ? local_array(a.template as<T>() + (part.begin - begin), dtype_of<T>, size) : local_array();
    };
    if (!key().trained) {
      p.weight = slice(weights, weight_range.begin, static_cast<compute*>(nullptr));
      return p;
    }
    master* const of = nullptr;
    p.weight = slice(master_weights, updated.begin, of);
    p.gradient = local_array(gradients, dtype_of<typename Precision::gradient>, size);
    p.first = slice(first, updated.begin, of);
    p.second = slice(second, updated.begin, of);
    return p;
  }

  /// Weights from numbers by global index, of region r.
  template <class Numbers>
  void load(context& ctx, const flat_region& r, const Numbers& numbers) {
    if (key().trained) load_region<Backend>(ctx, r, updated, numbers, master_weights.template as<master>());
    if (!shares_master())
      load_region<Backend, compute, master>(ctx, r, weight_range, numbers, weights.template as<compute>());
  }
};

}  // namespace weft::detail
