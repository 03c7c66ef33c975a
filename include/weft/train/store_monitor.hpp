// What a monitor asks of a parameter store: statistics of what is stored, and gradients that are not finite.
// Invariant: an element is counted once, however many ranks hold it.
#pragma once

#include <weft/parallel/unit_store.hpp>
#include <weft/train/fault_finder.hpp>
#include <weft/train/share_statistics.hpp>
#include <weft/train/training.hpp>

namespace weft::detail {

/// Adds the statistics of master weights, finished gradients (times `gradient_scale`) and moments to `parts`; of:
/// statistics_of<the store's backend>.
WEFT_LINKED void measure_stored(context& ctx, unit_store& store, double gradient_scale, measured_parts& parts,
                                statistics_function of) {
  store.each_stored([&](const stored_parameter& p) {
    if (!p.record.counted) return;  // another rank's
    const placed_slice& at = p.record.at;
    const auto add = [&](measured kind, const local_array& x, double scale) {
      if (!x) return;  // a moment that the optimizer doesn't keep, a frozen parameter's gradient
      array_statistics s = statistics_of(ctx, for_kernels(ctx, store.types(), x), at, p.begin, of);
      s.scale(scale);
      parts.add(ctx, std::string(store.unit_name(p.unit)), kind, p.record.sharded, p.storage, s);
    };
    local_array weight = p.weight;
    if (p.is_quantised()) {
      weight = ctx.make(store.types().compute, shape{1, {p.count}}, memory::buffers);
      p.record.stored.dequantise(ctx, p.quantised(), weight);
    }
    add(measured::weight, weight, 1);
    add(measured::gradient, p.gradient, gradient_scale);
    add(measured::first_moment, p.first, 1);
    add(measured::second_moment, p.second, 1);
  });
}

/// Says how many elements it has set to zero.
template <class Store>
std::int64_t zero_kernel(context& ctx, const local_array& x) {
  using backend = typename Store::backend;
  return backend::zero_not_finite(ctx.queue<backend>(), x.elements(), x.as<typename Store::gradient>());
}

/// Sets finished gradients that are not finite to zero, element by element. All ranks call it. zero: zero_kernel<the
/// store's type>.
WEFT_LINKED zeroed_elements zero_not_finite(context& ctx, unit_store& store,
                                            std::int64_t (*zero)(context&, const local_array&)) {
  measured_parts parts;
  store.each_stored([&](const stored_parameter& p) {
    const local_array& x = p.gradient;
    if (!x) return;
    const std::int64_t count = zero(ctx, x);
    if (!p.record.counted) return;
    array_statistics s;
    s.not_finite = count;
    parts.add(ctx, std::string(store.unit_name(p.unit)), measured::gradient, p.record.sharded, p.storage, s);
  });
  zeroed_elements out;
  for (const unit_statistics& u : parts.gather(ctx)) {
    const std::int64_t n = u[measured::gradient].not_finite;
    out.total += n;
    if (n > 0) out.units.push_back({u.unit, n});
  }
  ctx.world.host().broadcast(&out.total, sizeof out.total, 0, {"statistics"}).wait();
  return out;
}

/// After finish_gradients, the first parameter of which a finished gradient is not finite, as a clause; empty where
/// there is none. The same on every rank; all call it.
WEFT_LINKED std::string fault_in_sums(context& ctx, unit_store& store, statistics_function of) {
  std::string name;
  store.each_stored([&](const stored_parameter& p) {
    if (name.empty() && p.gradient && of(ctx, p.gradient).not_finite > 0) name = p.record.name;
  });
  return fault_finder::earliest(
      ctx, name.empty() ? fault_finder::none : 0,
      "first seen in the gradient of " + name + " when it was summed over micro-batches and ranks");
}

/// What the finder saw of a step that it looked at, with the sums that the store has of it, as a clause.
template <class Store>
std::string conclusion_of(const fault_finder& finder, context& ctx, Store& store, statistics_function of) {
  std::string where = finder.conclusion();
  if (where.empty()) where = fault_in_sums(ctx, store, of);
  if (!where.empty()) return where;
  return is_finite(store.gradient_norm({})) ? "not seen again when the step was computed once more"
                                            : "though every gradient is finite: their squares are too large";
}

}  // namespace weft::detail
