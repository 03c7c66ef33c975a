// AdamW (Loshchilov & Hutter 2019) in one pass over master weights, moments, gradient and working copy.
// Invariant: each array is read and written once.
#pragma once

#include <cmath>

#include <weft/backend/concept.hpp>
#include <weft/backend/cpu/common.hpp>

namespace weft::cpu {

/// m = beta1 m + (1-beta1) g, v = beta2 v + (1-beta2) g^2, master -= lr (m/bias1 / (sqrt(v/bias2) + eps) + decay * master).
/// `working` gets the new weights rounded; it may be null, or master itself.
template <class M, class G, class W>
void adamw(team& workers, const adamw_step& step, int64 n, M* master, M* m, M* v, const G* g, W* working) {
  const M lr = static_cast<M>(step.lr), b1 = static_cast<M>(step.beta1), b2 = static_cast<M>(step.beta2);
  const M c1 = static_cast<M>(1 - step.beta1), c2 = static_cast<M>(1 - step.beta2), eps = static_cast<M>(step.eps);
  const M decay = static_cast<M>(step.weight_decay), scale = static_cast<M>(step.grad_scale);
  const M i1 = static_cast<M>(1 / step.bias1), i2 = static_cast<M>(1 / step.bias2);
  detail::for_blocks(workers, n, detail::block_elements, [=](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) {
      const M gi = static_cast<M>(g[i]) * scale;
      const M mi = b1 * m[i] + c1 * gi, vi = b2 * v[i] + c2 * gi * gi;
      const M w = master[i] - lr * (mi * i1 / (std::sqrt(vi * i2) + eps) + decay * master[i]);
      m[i] = mi, v[i] = vi, master[i] = w;
      if (working) working[i] = detail::narrow<W>(w);
    }
  });
}

}  // namespace weft::cpu
