// AdamW (Loshchilov & Hutter 2019) in one pass over master weights, moments, gradient and working copy.
// Invariant: each array is read and written once.
#pragma once

#include <cmath>
#include <type_traits>

#include <weft/backend/cpu/vmath.hpp>
#include <weft/backend/rounding_ranges.hpp>

namespace weft::cpu {}  // namespace weft::cpu

#define WEFT_KERNELS <weft/backend/cpu/adamw.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class M, class G, class W>
void adamw_block(const adamw_step& step, int64 n, M* master, M* m, M* v, const G* g, W* working) {
  WEFT_DISPATCH(adamw_block, step, n, master, m, v, g, working);
}

}  // namespace detail

/// g times step.grad_scale first; m = beta1 m + (1-beta1) g, v = beta2 v + (1-beta2) g^2, master -= lr (m/bias1 /
/// (sqrt(v/bias2) + eps) + decay * master), without decay where `decaying` hasn't the element. `working` gets the new
/// weights rounded; it may be null, or master itself. M is float, with G and W of at most 32 bits, or all three are
/// double.
template <class M, class G, class W>
void adamw(team& workers, const adamw_step& step, int64 n, const decay_ranges& decaying, M* master, M* m, M* v,
           const G* g, W* working) {
  static_assert(std::is_same_v<M, accumulate_t<G>> && std::is_same_v<M, accumulate_t<W>>,
                "adamw: master weights are float, or double if gradient and working copy are double too");
  if (!step.grad_scale.writes()) return;
  adamw_step now = step;
  now.grad_scale = step.grad_scale.value();
  adamw_step without_decay = now;
  without_decay.weight_decay = 0;
  detail::for_blocks(workers, n, detail::block_elements, [&](int64 first, int64 last) {
    decaying.runs(first, last, [&](int64 begin, int64 end, bool decays) {
      detail::adamw_block(decays ? now : without_decay, end - begin, master + begin, m + begin, v + begin, g + begin,
                          working ? working + begin : nullptr);
    });
  });
}

/// The same with moments in bf16, rounded stochastically by the words that `rounding` has at global indices: the first
/// moment by the lower half of an element's, the second by the upper.
template <class G, class W>
void adamw(team& workers, const adamw_step& step, int64 n, const decay_ranges& decaying, float* master, bf16* m,
           bf16* v, const G* g, W* working, const rounding_ranges& rounding) {
  static_assert(!std::is_same_v<G, double> && !std::is_same_v<W, double>, "adamw: moments of bf16 go with float");
  if (!step.grad_scale.writes()) return;
  adamw_step now = step;
  now.grad_scale = step.grad_scale.value();
  adamw_step without_decay = now;
  without_decay.weight_decay = 0;
  constexpr int64 piece = 512;
  detail::for_blocks(workers, n, piece, [&](int64 first, int64 last) {
    float mean[piece], square[piece];
    for (int64 i = first; i < last; ++i)
      mean[i - first] = static_cast<float>(m[i]), square[i - first] = static_cast<float>(v[i]);
    decaying.runs(first, last, [&](int64 begin, int64 end, bool decays) {
      detail::adamw_block(decays ? now : without_decay, end - begin, master + begin, mean + (begin - first),
                          square + (begin - first), g + begin, working ? working + begin : nullptr);
    });
    rounding.runs(first, last, [&](int64 begin, int64 end, const stochastic_rounding& of) {
      weft::detail::rounding_words words{of.numbers};
      of.at.runs(of.first, end - begin, [&](int64 from, int64 global, int64 count) {
        for (int64 i = from; i < from + count; ++i) {
          const std::uint32_t word = words.word(global < 0 ? global : global + (i - from));
          m[begin + i] = stochastically_rounded(mean[begin - first + i], word & 0xffffu);
          v[begin + i] = stochastically_rounded(square[begin - first + i], word >> 16);
        }
      });
    });
  });
}

}  // namespace weft::cpu
