// What one rank keeps of a bucket's weights: those that operators read, the optimizer's copy, and its moments.
// Invariants: where weights and master weights are the same numbers, they are the same memory; initial values are drawn
// before anything is read, and never of what was loaded before that.
#pragma once

#include <weft/parallel/quantised_bucket.hpp>
#include <weft/parallel/store_kernels.hpp>

namespace weft::detail {

struct stored_bucket {
  const store_kernels* kernels = nullptr;
  flat_bucket flat{};
  flat_range weight_range{}, updated{};
  std::int64_t offset = 0;      // in bytes, within a unit's gather buffer, where parameters are sharded
  std::int64_t decoded = 0;     // in elements, within a unit's buffer of numbers, where they are stored in few bits
  axis_group* group = nullptr;  // of its storage
  local_array weights{}, master_weights{}, first{}, second{};
  quantised_bucket quantised{};  // then weights are bytes
  request gathering{};
  std::vector<bool> undrawn{};  // by region: neither drawn nor loaded; empty: none
  std::uint64_t seed = 0;       // the context's when the store was made

  const bucket_key& key() const { return flat.key; }
  /// A frozen bucket's weights are only those that operators read.
  bool shares_master() const {
    return key().trained && kernels->compute == kernels->master && key().shards_parameters == key().shards_optimizer;
  }
  /// The axes over which what this rank keeps is a share.
  axis_set storage() const {
    return (key().trained ? key().shards_optimizer : key().shards_parameters) ? key().storage : axis_set();
  }
  /// What this rank updates of a region, or, frozen, keeps.
  flat_range part_of(const flat_region& r) const { return (key().trained ? updated : weight_range).overlap(r); }

  /// Everything that lasts; draw() fills in the initial weights.
  WEFT_LINKED void allocate(context& ctx, int moments) {
    group = flat.group;
    weight_range = flat.kept(key().shards_parameters);
    updated = key().trained ? flat.kept(key().shards_optimizer) : flat_range();
    const auto make = [&](std::int64_t n, dtype type, memory category) { return ctx.make(type, {1, {n}}, category); };
    if (key().format != weight_format::plain) {
      quantised.allocate(ctx, flat, kernels->zero);
      weights = make(quantised.share_bytes(), dtype::u8, memory::parameters);
      return kernels->zero(ctx, weights);
    }
    undrawn.assign(flat.regions.size(), true);
    seed = ctx.seed;
    const std::int64_t n = updated.size();
    if (key().trained) {
      const shape of_state{1, {n}};
      master_weights =
          shares_master() ? make(n, kernels->master, memory::parameters) : ctx.make_state(kernels->master, of_state);
      if (moments > 0) first = ctx.make_state(kernels->moment, of_state);
      if (moments > 1) second = ctx.make_state(kernels->moment, of_state);
      if (shares_master()) weights = master_weights;
    }
    if (!weights) weights = make(weight_range.size(), kernels->compute, memory::parameters);
    for (const local_array* moment : {&first, &second})
      if (*moment) make_zero(ctx, *kernels, *moment);
    if (key().trained) clear_between(ctx, updated, master_weights);
    if (!shares_master()) clear_between(ctx, weight_range, weights);
  }
  /// Initial weights of what wasn't loaded: a function of global indices, so that each rank makes just what it holds.
  void draw(const context_ref& rank) {
    if (!undrawn.empty()) [[unlikely]]
      draw_all(*rank.get("a parameter store"));
  }

  /// What operators see of `part`, which was updated; empty where that is the master weights themselves.
  local_array working(const flat_range& part) const {
    if (shares_master()) return {};
    return seen(weights, part.begin - weight_range.begin, {1, {part.size()}});
  }
  /// The new weights are on their way to who reads them, awaited by the unit's next use.
  WEFT_LINKED void publish(std::string_view unit, call_site at) {
    if (!key().shards_optimizer || key().shards_parameters) return;
    const local_array own = seen(weights, updated.begin, {1, {updated.size()}});
    gathering =
        group->comm.all_gather(own.data, weights.data, own.bytes(), collective_label{"weights", {}, unit, -1, at});
  }
  /// The whole bucket is on its way into its place in `unit_buffer`.
  WEFT_LINKED void gather_into(const local_array& unit_buffer, std::string_view unit) {
    gathering = group->comm.all_gather(weights.data, unit_buffer.as<std::byte>() + offset, weights.bytes(),
                                       collective_label{"weights", {}, unit});
  }
  /// What all ranks keep of the bucket, one behind another.
  std::byte* bytes(const local_array* unit_buffer) const {
    return key().shards_parameters ? unit_buffer->as<std::byte>() + offset : weights.as<std::byte>();
  }
  /// Bytes of that.
  std::int64_t whole_bytes() const {
    return quantised ? quantised.whole_bytes() : flat.size * static_cast<std::int64_t>(size_of(kernels->compute));
  }
  /// Where operators read the whole bucket from element `from` on.
  void* whole(const local_array* unit_buffer, const local_array* numbers, std::int64_t from) const {
    if (quantised) return seen(*numbers, decoded + from, {}).data;
    return bytes(unit_buffer) + from * static_cast<std::int64_t>(size_of(kernels->compute));
  }

  /// The whole bucket's weights in the compute type, for as long as what comes back is kept.
  WEFT_LINKED local_array numbers(context& ctx, const collective_label& label) const {
    if (!quantised) return gathered(ctx, weights, label);
    quantised.require_given(flat);
    local_array all = weights, out = ctx.make(kernels->compute, shape{1, {flat.size}}, memory::buffers);
    if (key().shards_parameters) {
      all = ctx.make(dtype::u8, shape{1, {quantised.whole_bytes()}}, memory::buffers);
      group->comm.all_gather(weights.data, all.data, weights.bytes(), label).wait(ctx.order());
    }
    quantised.dequantise(ctx, flat, all.as<std::byte>(), out);
    return out;
  }

  /// The whole bucket, from every rank's share of it.
  WEFT_LINKED local_array gathered(context& ctx, const local_array& share, const collective_label& label) const {
    if (storage().empty()) return share;
    const local_array own = for_kernels(ctx, *kernels, share);
    local_array out = ctx.make(share.type, shape{1, {flat.size}}, memory::buffers);
    group->comm.all_gather(own.data, out.data, own.bytes(), label).wait(ctx.order());
    return out;
  }

  /// A whole frozen bucket's weights as those of others are given out.
  WEFT_LINKED local_array in_master_type(context& ctx, const local_array& whole) const {
    local_array out = ctx.make(kernels->master, shape{1, {flat.size}}, memory::buffers);
    kernels->convert(ctx, whole, out, false);
    return out;
  }

  /// What this rank keeps of region r; part: part_of(r), gradients: of that, or empty.
  WEFT_LINKED stored_parameter stored(int unit, const flat_region& r, flat_range part,
                                      const local_array& gradients) const {
    stored_parameter p{unit, *r.parameter, storage(), part.begin - r.begin, part.size()};
    if (quantised) {
      quantised.show(region_number(r), part, weights.as<std::byte>(), p);
      return p;
    }
    const shape size{1, {part.size()}};
    const auto slice = [&](const local_array& a, std::int64_t begin) {
      return a ? seen(a, part.begin - begin, size) : local_array();
    };
    p.weight = key().trained ? slice(master_weights, updated.begin) : slice(weights, weight_range.begin);
    if (!key().trained) return p;
    p.gradient = gradients;
    p.first = slice(first, updated.begin);
    p.second = slice(second, updated.begin);
    return p;
  }

  /// Of a region in few bits: whole on every rank, whatever of it this one keeps.
  const local_array& scales_of(const flat_region& r) const { return quantised.scales[region_number(r)]; }
  /// Says that what stored() shows of a region in few bits was written.
  void was_given(const flat_region& r) { quantised.given[region_number(r)] = true; }

  /// Weights from numbers by global index, of region r.
  template <class Backend, class Precision, class Numbers>
  void load(context& ctx, const flat_region& r, const Numbers& numbers) {
    using compute = typename Precision::compute;
    using master = typename Precision::master;
    if (quantised) return quantised.load<Backend>(ctx, r, region_number(r), numbers, weights.as<std::byte>());
    if (key().trained) load_region<Backend>(ctx, r, updated, numbers, master_weights.as<master>());
    if (!shares_master()) load_region<Backend, compute, master>(ctx, r, weight_range, numbers, weights.as<compute>());
    if (!undrawn.empty()) undrawn[region_number(r)] = false;
  }

 private:
  std::size_t region_number(const flat_region& r) const { return static_cast<std::size_t>(&r - flat.regions.data()); }
  [[gnu::cold]] WEFT_LINKED void draw_all(context& ctx) {
    const bool same = key().trained && weight_range.begin == updated.begin && weight_range.end == updated.end;
    for (std::size_t k = 0; k < undrawn.size(); ++k) {
      if (!undrawn[k]) continue;
      const flat_region& r = flat.regions[k];
      const local_array own = drawn(ctx, r, updated, master_weights);
      if (shares_master() || weight_range.overlap(r).size() == 0) continue;
      if (same)
        kernels->convert(ctx, own, region_in(weights, r, weight_range), false);
      else
        drawn(ctx, r, weight_range, weights);
    }
    undrawn.clear();
  }
  /// Makes what lies between regions zero, of an array of the flat elements in `range`: nobody else writes there.
  WEFT_LINKED void clear_between(context& ctx, flat_range range, const local_array& all) const {
    std::int64_t done = range.begin;
    const auto clear = [&](std::int64_t end) {
      if (done < end) make_zero(ctx, *kernels, seen(all, done - range.begin, {1, {end - done}}));
    };
    for (const flat_region& r : flat.regions) {
      clear(std::min(r.begin, range.end));
      done = std::max(done, r.begin + r.count);
    }
    clear(range.end);
  }
  static local_array region_in(const local_array& all, const flat_region& r, flat_range range) {
    const flat_range part = range.overlap(r);
    return seen(all, part.begin - range.begin, {1, {part.size()}});
  }
  /// What `all`, which has the flat elements in `range`, has of a region, with its initial values, where kernels read
  /// it.
  WEFT_LINKED local_array drawn(context& ctx, const flat_region& r, flat_range range, const local_array& all) const {
    const flat_range part = range.overlap(r);
    if (part.size() == 0) return {};
    const local_array own = region_in(all, r, range);
    const bool on_host = ctx.lies_on_host(own.data);
    const local_array made = on_host ? ctx.make(own.type, own.shape, memory::buffers) : own;
    kernels->initialise(ctx, seed, *r.parameter, part.begin - r.begin, made);
    if (on_host) kernels->copy(ctx, made, own);
    return made;
  }
};

}  // namespace weft::detail
