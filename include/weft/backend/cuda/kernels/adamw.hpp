// AdamW (Loshchilov & Hutter 2019) in one pass over master weights, moments, gradient and working copy, and what is
// done once of a few numbers; as kernel bodies. Invariant: each array is read and written once.
#pragma once

#include <weft/backend/cuda/kernel.hpp>
#include <weft/backend/stochastic_rounding.hpp>

namespace weft::gpu {

/// A step's numbers, and what they make of one element.
template <class M>
struct adamw_rule {
  M beta1, beta2, rest1, rest2, lr, root2, eps, decay;  // lr / bias1, 1 / sqrt(bias2), lr * weight_decay

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block, M gradient, bool decays, M& w, M& m, M& v) const {
    m = block.fma(m, beta1, gradient * rest1);
    v = block.fma(v, beta2, gradient * rest2 * gradient);  // no sooner too large than it
    w -= m * lr / (block.sqrt(v) * root2 + eps) + (decays ? decay : M(0)) * w;
  }
};

/// g times grad_scale first; m = beta1 m + (1-beta1) g, v = beta2 v + (1-beta2) g^2, master -= lr (m/bias1 /
/// (sqrt(v/bias2) + eps) + decay * master), without decay where `decaying` hasn't the element; working, which may be
/// null or the master, is the master rounded. Nothing is written where grad_scale is NaN in memory.
template <class M, class G, class W>
struct adamw_kernel {
  int64 n;
  kernel_number grad_scale;
  adamw_rule<M> rule;
  decay_ranges decaying;
  M *master, *first, *second;
  const G* g;
  W* working;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (!grad_scale.writes()) return;
    const M scale = static_cast<M>(grad_scale.value());
    int range = 0;
    for_packs_of_grid<pack_size<M>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<G, N> in = block.template load<N>(g + i);
      pack<M, N> w = block.template load<N>(static_cast<const M*>(master) + i),
                 m = block.template load<N>(static_cast<const M*>(first) + i),
                 v = block.template load<N>(static_cast<const M*>(second) + i);
      pack<W, N> out;
      for (int k = 0; k < N; ++k) {
        const M gradient = static_cast<M>(block.widen(in.at[k])) * scale;
        rule(block, gradient, decaying.has(i + k, range), w.at[k], m.at[k], v.at[k]);
        out.at[k] = block.template narrow<W>(w.at[k]);
      }
      block.store(first + i, m);
      block.store(second + i, v);
      block.store(master + i, w);
      if (working) block.store(working + i, out);
    });
  }
};

/// The same with moments of bf16, rounded stochastically by the words at global indices.
template <class G, class W>
struct adamw_rounded_kernel {
  int64 n;
  kernel_number grad_scale;
  adamw_rule<float> rule;
  decay_ranges decaying;
  stochastic_rounding rounding;
  float* master;
  bf16 *first, *second;
  const G* g;
  W* working;
  bool packed;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (!grad_scale.writes()) return;
    const auto scale = static_cast<float>(grad_scale.value());
    const placed_slice& at = rounding.at;
    const int64 line = at.ndim > 0 ? at.valid[at.ndim - 1] : 1, width = at.ndim > 0 ? at.local[at.ndim - 1] : 1;
    int range = 0;
    weft::detail::rounding_words words{rounding.numbers};
    for_packs_of_grid<pack_size<float>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<G, N> in = block.template load<N>(g + i);
      pack<bf16, N> means = block.template load<N>(static_cast<const bf16*>(first) + i),
                    squares = block.template load<N>(static_cast<const bf16*>(second) + i);
      pack<float, N> w = block.template load<N>(static_cast<const float*>(master) + i);
      pack<W, N> out;
      int64 global = -1;
      for (int k = 0; k < N; ++k) {
        float m = block.widen(means.at[k]), v = block.widen(squares.at[k]);
        const float gradient = static_cast<float>(block.widen(in.at[k])) * scale;
        rule(block, gradient, decaying.has(i + k, range), w.at[k], m, v);
        const int64 here = (rounding.first + i + k) % width;  // of its line, neighbours in which are in the whole too
        global = global >= 0 && here > 0 && here < line ? global + 1 : at.global_index(rounding.first + i + k);
        const std::uint32_t word = words.word(global);
        means.at[k] = stochastically_rounded(m, word & 0xffffu);
        squares.at[k] = stochastically_rounded(v, word >> 16);
        out.at[k] = block.template narrow<W>(w.at[k]);
      }
      block.store(first + i, means);
      block.store(second + i, squares);
      block.store(master + i, w);
      if (working) block.store(working + i, out);
    });
  }
};

/// f(), by one thread.
template <class F>
struct once_kernel {
  F f;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    if (block.index() == 0 && block.thread() == 0) f();
  }
};

}  // namespace weft::gpu
