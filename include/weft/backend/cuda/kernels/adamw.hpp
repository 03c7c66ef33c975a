// AdamW (Loshchilov & Hutter 2019) in one pass over master weights, moments, gradient and working copy, and what is
// done once of a few numbers; as kernel bodies. Invariant: each array is read and written once.
// Of n elements, with master weights of M, moments of M or B, gradients of G, working copies of W:
//   adamw_kernel: (6 M + G + W) n bytes, 16 n FLOPs
//   adamw_rounded_kernel: (2 M + 4 B + G + W) n bytes, 16 n FLOPs
#pragma once

#include <weft/backend/cuda/kernel.hpp>
#include <weft/backend/rounding_ranges.hpp>

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

/// What a step works on, with moments that are kept in Kept. each(block, keep): g times grad_scale first; m = beta1 m +
/// (1-beta1) g, v = beta2 v + (1-beta2) g^2, master -= lr (m/bias1 / (sqrt(v/bias2) + eps) + decay * master), without
/// decay where `decaying` hasn't the element; working, which may be null or the master, is the master rounded.
/// keep(k, i, m, v, first, second) says how element i, number k of its pack, keeps its moments. Nothing is written
/// where grad_scale is NaN in memory.
template <class M, class Kept, class G, class W>
struct adamw_elements {
  int64 n;
  kernel_number grad_scale;
  adamw_rule<M> rule;
  decay_ranges decaying;
  M* master;
  Kept *first, *second;
  const G* g;
  W* working;
  bool packed;

  template <class Block, class Keep>
  WEFT_ON_DEVICE void each(Block& block, Keep keep) const {
    if (!grad_scale.writes()) return;
    const M scale = static_cast<M>(grad_scale.value());
    int range = 0;
    for_packs_of_grid<pack_size<M>>(block, n, packed, [&]<int N>(int64 i) {
      const pack<G, N> in = block.template load<N>(g + i);
      pack<M, N> w = block.template load<N>(static_cast<const M*>(master) + i);
      pack<Kept, N> means = block.template load<N>(static_cast<const Kept*>(first) + i),
                    squares = block.template load<N>(static_cast<const Kept*>(second) + i);
      pack<W, N> out;
      for (int k = 0; k < N; ++k) {
        M m = block.widen(means.at[k]), v = block.widen(squares.at[k]);
        const M gradient = static_cast<M>(block.widen(in.at[k])) * scale;
        rule(block, gradient, decaying.has(i + k, range), w.at[k], m, v);
        keep(k, i + k, m, v, means.at[k], squares.at[k]);
        out.at[k] = block.template narrow<W>(w.at[k]);
      }
      block.store(first + i, means);
      block.store(second + i, squares);
      block.store(master + i, w);
      if (working) block.store(working + i, out);
    });
  }
};

/// With moments of the master's type.
template <class M, class G, class W>
struct adamw_kernel : adamw_elements<M, M, G, W> {
  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    this->each(block, [](int, int64, M m, M v, M& first, M& second) { first = m, second = v; });
  }
};

/// With moments of bf16, rounded stochastically by the words at global indices. No tensor begins within a pack.
template <class G, class W>
struct adamw_rounded_kernel : adamw_elements<float, bf16, G, W> {
  rounding_ranges rounding;

  template <class Block>
  WEFT_ON_DEVICE void operator()(Block& block) const {
    int range = 0;
    const stochastic_rounding* of = nullptr;
    weft::detail::rounding_words words{};
    int64 global = -1, left = 0;  // elements of the line behind this one: neighbours in the whole, too
    this->each(block, [&](int k, int64 i, float m, float v, bf16& first, bf16& second) {
      if (k == 0) of = &rounding.of(i, range), words = {of->numbers}, left = 0;
      if (left > 0) {
        ++global, --left;
      } else {
        global = of->at.global_index(of->first + i);
        const int last = of->at.ndim - 1;
        left = global < 0 || last < 0 ? 0 : of->at.valid[last] - 1 - (of->first + i) % of->at.local[last];
      }
      const std::uint32_t word = words.word(global);
      first = stochastically_rounded(m, word & 0xffffu);
      second = stochastically_rounded(v, word >> 16);
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
