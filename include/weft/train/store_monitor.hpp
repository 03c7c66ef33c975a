// What a monitor asks of a parameter store: statistics of what is stored, and gradients that are not finite.
// Invariant: an element is counted once, however many ranks hold it.
#pragma once

#include <weft/parallel/flat_bucket.hpp>
#include <weft/train/fault_finder.hpp>
#include <weft/train/share_statistics.hpp>
#include <weft/train/training.hpp>

namespace weft::detail {

/// Adds the statistics of master weights, finished gradients (times `gradient_scale`) and moments to `parts`.
template <class Backend, class Store>
void measure_stored(context& ctx, Store& store, const parameter_registry& registry, double gradient_scale,
                    measured_parts& parts) {
  store.each_stored([&](const stored_parameter& p) {
    if (!p.record.counted) return;  // another rank's
    const placed_slice& at = p.record.at;
    const auto add = [&](measured kind, const local_array& x, double scale) {
      if (!x) return;  // a moment that the optimizer doesn't keep, a frozen parameter's gradient
      array_statistics s = statistics_of<Backend>(ctx, x, at, p.begin);
      s.scale(scale);
      parts.add(ctx, registry.units()[static_cast<std::size_t>(p.unit)].name, kind, p.record.sharded, p.storage, s);
    };
    local_array weight = p.weight;
    if (p.is_quantised()) {
      weight = ctx.make(dtype_of<typename Store::compute>, shape{1, {p.count}}, memory::buffers);
      p.record.stored.dequantise(ctx, p.quantised(), weight);
    }
    add(measured::weight, weight, 1);
    add(measured::gradient, p.gradient, gradient_scale);
    add(measured::first_moment, p.first, 1);
    add(measured::second_moment, p.second, 1);
  });
}

/// Sets finished gradients that are not finite to zero, element by element. All ranks call it.
template <class Backend, class Store>
zeroed_elements zero_not_finite(context& ctx, Store& store, const parameter_registry& registry) {
  measured_parts parts;
  store.each_stored([&](const stored_parameter& p) {
    const local_array& x = p.gradient;
    if (!x) return;
    using T = typename Store::gradient;
    const std::int64_t count = Backend::zero_not_finite(ctx.queue<Backend>(), x.elements(), x.as<T>());
    if (!p.record.counted) return;
    array_statistics s;
    s.not_finite = count;
    parts.add(ctx, registry.units()[static_cast<std::size_t>(p.unit)].name, measured::gradient, p.record.sharded,
              p.storage, s);
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
template <class Backend, class Store>
std::string fault_in_sums(context& ctx, Store& store) {
  std::string name;
  store.each_stored([&](const stored_parameter& p) {
    if (name.empty() && p.gradient && statistics_of<Backend>(ctx, p.gradient).not_finite > 0) name = p.record.name;
  });
  using finder = fault_finder<Backend>;
  return finder::earliest(ctx, name.empty() ? finder::none : 0,
                          "first seen in the gradient of " + name + " when it was summed over micro-batches and ranks");
}

}  // namespace weft::detail
