// The kernels that operators call, as concepts over a backend and an element type: `backend_for<B, T>` holds for one
// that has all of them. An operator asks for no more than it calls, so a backend with few kernels runs the programs
// that need no others. What each kernel gives, testing::check_backend<B, T> tries. Invariant: a concept says how a
// kernel is called, and its comment what it gives; nothing is computed here.
#pragma once

#include <array>
#include <concepts>
#include <memory>

#include <weft/backend/quantised.hpp>
#include <weft/backend/rounding_ranges.hpp>
#include <weft/backend/token_choice.hpp>
#include <weft/core/float8.hpp>
#include <weft/core/random.hpp>

namespace weft {

namespace detail {
/// Stands for what a kernel is given, in a concept: never made.
template <class B, class T>
struct kernel_words {
  using A = accumulate_t<T>;
  typename B::queue& queue;
  std::int64_t n;
  const std::int64_t* extents;  // also strides, ndim of them
  const bool* reduced;
  const T* x;
  T* y;
  const A* sums;
  A* to_sums;
  const double* means;
  double *to_means, eps;
  const std::int32_t* ids;
  local_array array;
  std::byte* bytes;
};
}  // namespace detail

// T: the tensor's element type. A = accumulate_t<T>, in which sums are kept: float for 16 bits, else T. G: T or A,
// where a gradient or a product is wanted in either. n counts elements; arrays are row-major and contiguous; x, a, b,
// dy are read, y, dx, ... written. A `bool` behind an output: whether the kernel adds to what is there.

/// upload(queue, host, to, bytes), download(queue, from, host, bytes), copy_bytes(queue, from, to, bytes): the same
/// bytes. download returns when they are there, upload when the host may write over its own. zero(queue, array),
/// fill(queue, array, number): every element of a local_array. copy(queue, ndim, extents, from, from_strides, to,
/// to_strides): to = from, of one type, at up to 8 extents; a stride of 0 repeats.
template <class B>
concept memory_kernels = requires(detail::kernel_words<B, float> k) {
  B::upload(k.queue, k.bytes, k.bytes, k.n);
  B::download(k.queue, k.bytes, k.bytes, k.n);
  B::copy_bytes(k.queue, k.bytes, k.bytes, k.n);
  B::zero(k.queue, k.array);
  B::fill(k.queue, k.array, k.eps);
  B::copy(k.queue, 1, k.extents, k.array, k.extents, k.array, k.extents);
};
/// convert(queue, n, from, to, add): to (+)= from, of From, rounded to the nearest To.
template <class B, class To, class From>
concept conversion_kernel = requires(detail::kernel_words<B, From> k, To* to) {
  B::convert(k.queue, k.n, k.x, to, true);
};

/// apply<F, T>(queue, n, x, y): y = F(x). apply_backward<F, T>(queue, n, x, dy, dx, add): dx (+)= F'(x) dy. Functions
/// whose addresses can be taken.
template <class B, unary F, class T>
concept function_kernels = requires {
  static_cast<void (*)(typename B::queue&, std::int64_t, const T*, T*)>(B::template apply<F, T>);
  static_cast<void (*)(typename B::queue&, std::int64_t, const T*, const T*, T*, bool)>(
      B::template apply_backward<F, T>);
};
/// apply(queue, f, n, a, b, y): y = f(a, b). apply(queue, f, ndim, extents, a, a_strides, b, b_strides, y): y
/// [extents], contiguous; a stride of 0 broadcasts; y may be a, where that is contiguous too.
template <class B, class T>
concept binary_kernels = requires(detail::kernel_words<B, T> k) {
  B::apply(k.queue, binary::add, k.n, k.x, k.x, k.y);
  B::apply(k.queue, binary::add, 4, k.extents, k.x, k.extents, k.x, k.extents, k.y);
};
/// scale(queue, n, c, x, y, add): y (+)= c x.
template <class B, class T>
concept scale_kernel = requires(detail::kernel_words<B, T> k, const kernel_number& c) {
  B::scale(k.queue, k.n, c, k.x, k.y, true);
};
/// swiglu(queue, n, gate, up, y): y = silu(gate) up. swiglu_backward(queue, n, gate, up, dy, dgate, add, dup, add).
template <class B, class T>
concept swiglu_kernels = requires(detail::kernel_words<B, T> k) {
  B::swiglu(k.queue, k.n, k.x, k.x, k.y);
  B::swiglu_backward(k.queue, k.n, k.x, k.x, k.x, k.y, true, k.y, true);
};

/// matmul(queue, shape, a, a_strides, b, b_strides, c, c_strides, add): c[i, m, n] (+)= sum over k of a[i, m, k]
/// b[i, k, n], added in A; c is of G, with a column stride of 1.
template <class B, class T, class G = T>
concept matmul_kernel = requires(detail::kernel_words<B, T> k, G* c, const matmul_shape& shape, const strides& s) {
  B::matmul(k.queue, shape, k.x, s, k.x, s, c, s, true);
};

/// matmul(queue, shape, a, a_strides, b, b_strides, c, c_strides, after): c = a b and what `after` says, rounded once.
/// False, and nothing done, where the backend can't; it may have no such kernel, and an operator then calls others.
template <class B, class T>
concept epilogue_kernel = requires(detail::kernel_words<B, T> k, const matmul_shape& shape, const strides& s,
                                   const matmul_epilogue& after) {
  { B::matmul(k.queue, shape, k.x, s, k.x, s, k.y, s, after) } -> std::same_as<bool>;
};

/// float8_matmul(queue, shape, a, a_strides, a_form, b, b_strides, b_form, c, c_strides, add): c (+)= a b of one
/// matrix, as matmul, of operands rounded to 8 bits under the scales of their largest magnitudes (core/float8.hpp), as
/// contract_float8 says. False, and nothing done, where the backend can't; it may have no such kernel.
template <class B, class T, class G = T>
concept float8_kernel = requires(detail::kernel_words<B, T> k, G* c, const matmul_shape& shape, const strides& s) {
  {
    B::float8_matmul(k.queue, shape, k.x, s, float8_form::e4m3, k.x, s, float8_form::e5m2, c, s, true)
    } -> std::same_as<bool>;
};

/// reduce_dims<kind>(queue, ndim, extents, reduced, x, y, add): y[kept] (+)= x over the dimensions marked in `reduced`;
/// y is of G; 0 or an infinity of nothing.
template <class B, class T, class G = T>
concept reduction_kernel = requires(detail::kernel_words<B, T> k, G* y) {
  B::template reduce_dims<reduce::sum>(k.queue, 1, k.extents, k.reduced, k.x, y, true);
};
/// repeat(queue, ndim, extents, reduced, y, x, add): x [extents] (+)= y, repeated along the dimensions marked: a sum's
/// backward.
template <class B, class T>
concept repeat_kernel = requires(detail::kernel_words<B, T> k) {
  B::repeat(k.queue, 1, k.extents, k.reduced, k.x, k.y, true);
};
/// sum_of_squares(queue, n, x, to, add): *to, a double in the backend's memory, (+)= the sum. statistics(queue, n, x),
/// zero_not_finite(queue, n, x): to the host, what array_statistics holds, and how many became 0.
template <class B, class T>
concept statistics_kernels = requires(detail::kernel_words<B, T> k) {
  B::sum_of_squares(k.queue, k.n, k.x, k.to_means, true);
  { B::statistics(k.queue, k.n, k.x) } -> std::convertible_to<array_statistics>;
  { B::zero_not_finite(k.queue, k.n, k.y) } -> std::convertible_to<std::int64_t>;
};

/// softmax(queue, outer, n, inner, x, y): along the middle one of [outer, n, inner]; y may be x.
/// softmax_backward(queue, outer, n, inner, y, dy, dx, add).
template <class B, class T>
concept softmax_kernels = requires(detail::kernel_words<B, T> k) {
  B::softmax(k.queue, k.n, k.n, k.n, k.x, k.y);
  B::softmax_backward(k.queue, k.n, k.n, k.n, k.x, k.x, k.y, true);
};
/// rms_norm(queue, rows, width, eps, x, w, y, rstd): y = x rstd w, rstd[row] (A) = 1 / sqrt(mean(x^2) + eps).
/// rms_norm_backward(queue, rows, width, x, w, rstd, dy, dx, add, dw, add): dx [rows, width], dw [width] of G; either
/// may be null.
template <class B, class T, class G = T>
concept rms_norm_kernels = requires(detail::kernel_words<B, T> k, G* dw) {
  B::rms_norm(k.queue, k.n, k.n, k.eps, k.x, k.x, k.y, k.to_sums);
  B::rms_norm_backward(k.queue, k.n, k.n, k.x, k.x, k.sums, k.x, k.y, true, dw, true);
};
/// layer_norm(queue, rows, width, eps, x, w, b, y, mean, rstd): the same about the mean (double), with a bias.
/// layer_norm_backward(queue, rows, width, x, w, mean, rstd, dy, dx, add, dw, add, db, add): dw and db of G.
template <class B, class T, class G = T>
concept layer_norm_kernels = requires(detail::kernel_words<B, T> k, G* dw) {
  B::layer_norm(k.queue, k.n, k.n, k.eps, k.x, k.x, k.x, k.y, k.to_means, k.to_sums);
  B::layer_norm_backward(k.queue, k.n, k.n, k.x, k.x, k.means, k.sums, k.x, k.y, true, dw, true, dw, true);
};
/// add_rms_norm(queue, rows, width, eps, x, r, w, h, y, rstd), add_layer_norm(queue, rows, width, eps, x, r, w, b, h,
/// y, mean, rstd): h = x + r, rounded to T, and y = rms_norm or layer_norm of h, with the bits of the two by
/// themselves.
template <class B, class T>
concept add_norm_kernels = requires(detail::kernel_words<B, T> k) {
  B::add_rms_norm(k.queue, k.n, k.n, k.eps, k.x, k.x, k.x, k.y, k.y, k.to_sums);
  B::add_layer_norm(k.queue, k.n, k.n, k.eps, k.x, k.x, k.x, k.x, k.y, k.y, k.to_means, k.to_sums);
};
/// Cross-entropy of rows at a distance of `stride`, whose first n columns are [begin, begin + n) of a vocabulary; all
/// but x, dx and ids is A. row_max(queue, rows, n, x, m, stride): the largest. row_sums(queue, rows, n, x, begin, ids,
/// m, exps, logit, sums, stride): sum of exp(x - m), the target's logit or 0, sum of x - m (may be null).
/// row_loss(queue, rows, ids, m, exps, logit, sums, smoothing, vocab, log_sum, loss, count): log_sum = log(exps); the
/// sum of losses, and of rows whose id isn't negative. cross_entropy_backward(queue, rows, n, x, begin, ids, m,
/// log_sum, g, smoothing, vocab, dx, stride): the gradient times g[row]; 0 in ignored rows and in columns from n on; dx
/// may be x.
template <class B, class T>
concept cross_entropy_kernels = requires(detail::kernel_words<B, T> k) {
  B::row_max(k.queue, k.n, k.n, k.x, k.to_sums, k.n);
  B::row_sums(k.queue, k.n, k.n, k.x, k.n, k.ids, k.sums, k.to_sums, k.to_sums, k.to_sums, k.n);
  B::row_loss(k.queue, k.n, k.ids, k.sums, k.sums, k.sums, k.sums, k.eps, k.n, k.to_sums, k.to_sums, k.to_sums);
  B::cross_entropy_backward(k.queue, k.n, k.n, k.x, k.n, k.ids, k.sums, k.sums, k.sums, k.eps, k.n, k.y, k.n);
};

/// attention(queue, shape, q, k, v, out, sums): softmax(scale q k^T) v, of the sizes in attention_shape; sums (A)
/// [2, batch, heads, q_len]: the largest score, and the log of the sum of exponentials under it. Query i of batch entry
/// b sees keys shape.first_key(i, b) ... shape.end_key(i) - 1, which read shape.documents where that isn't null.
/// attention_backward(queue, shape, q, k, v, out, sums, dout, dq, add, dk, add, dv, add).
template <class B, class T>
concept attention_kernels = requires(detail::kernel_words<B, T> k, const attention_shape& shape) {
  B::attention(k.queue, shape, k.x, k.x, k.x, k.y, k.to_sums);
  B::attention_backward(k.queue, shape, k.x, k.x, k.x, k.x, k.sums, k.x, k.y, true, k.y, true, k.y, true);
};
/// rope(queue, batch, seq, heads, head_dim, x, cos, sin, first, inverse, y, add): pairs (i, i + head_dim / 2) turned by
/// row first + position of cos and sin (A, [positions, head_dim / 2]); y may be x.
template <class B, class T>
concept rope_kernel = requires(detail::kernel_words<B, T> k) {
  B::rope(k.queue, k.n, k.n, k.n, k.n, k.x, k.sums, k.sums, k.n, true, k.y, true);
};

/// embedding(queue, rows, width, ids, begin, count, table, y): y[row] = table[ids[row] - begin], 0 outside of
/// [begin, begin + count). embedding_backward(queue, rows, width, ids, begin, count, dy, dtable, add): dtable is G.
template <class B, class T, class G = T>
concept embedding_kernels = requires(detail::kernel_words<B, T> k, G* table) {
  B::embedding(k.queue, k.n, k.n, k.ids, k.n, k.n, k.x, k.y);
  B::embedding_backward(k.queue, k.n, k.n, k.ids, k.n, k.n, k.x, table, true);
};
/// dropout(queue, mask, slice, x, y, add): y (+)= x / (1 - rate) where the mask keeps an element, else 0.
template <class B, class T>
concept dropout_kernel = requires(detail::kernel_words<B, T> k, const dropout_mask& mask, const placed_slice& slice) {
  B::dropout(k.queue, mask, slice, k.x, k.y, true);
};
/// normal(queue, slice, first, count, mean, deviation, philox, y): initial values: y[i] = mean + deviation times the
/// standard normal number at the global index of the slice's element first + i; 0 in its padding.
template <class B, class T>
concept normal_kernel = requires(detail::kernel_words<B, T> k, const placed_slice& slice, const philox& numbers) {
  B::normal(k.queue, slice, k.n, k.n, k.eps, k.eps, numbers, k.y);
};
/// dequantise(queue, slice, y): y[i] = what the slice's codes stand for, 0 in padding. int8: (code * scale) * (1 /
/// 127); nf4: value of the code * (level * factor + offset); each operation in float and rounded. linear asks for it
/// where the strategy stores projections in few bits, for the compute type.
template <class B, class T>
concept dequantise_kernel = requires(detail::kernel_words<B, T> k, const quantised_slice& slice) {
  B::dequantise(k.queue, slice, k.y);
};
/// choose_tokens(queue, rows, vocab, logits, rule, texts, penalised, listed, out): out[row] = the token that `rule`
/// (backend/token_choice.hpp) and the draw of texts[row] choose from logits[row], whose tokens penalised[first], ...,
/// [first + count) of that text are penalised: each listed once, `listed` in all; -1 where the largest logit isn't
/// finite. All but the logits lies in the host's memory, and is left alone until the queue has run it. Text asks for
/// it; where a backend lacks it, logits come to the host.
template <class B, class T>
concept choice_kernel = requires(detail::kernel_words<B, T> k, const detail::choice_rule& rule,
                                 const detail::choice_of_text* texts, detail::chosen_token* out) {
  B::choose_tokens(k.queue, k.n, k.n, k.x, rule, texts, k.ids, k.n, out);
};
/// adamw(queue, step, n, decaying, master, first, second, g, working): one adamw_step of a gradient of G, of arrays of
/// n elements, to which weight decay applies where `decaying` (decay_ranges) has them; working (T, the master's rounded
/// once) may be null, or the master.
template <class B, class T, class Master = accumulate_t<T>, class G = accumulate_t<T>>
concept adamw_kernel = requires(detail::kernel_words<B, T> k, const adamw_step& step, const decay_ranges& decaying,
                                Master* m, const G* g) {
  B::adamw(k.queue, step, k.n, decaying, m, m, m, g, k.y);
};

/// adamw(queue, step, n, decaying, master, first, second, g, working, rounding): the same with float master weights and
/// moments in bf16, which are rounded stochastically: each by half of the word that `rounding` (rounding_ranges)
/// has for its element's tensor at the global index there. Asked for where the precision keeps moments so.
template <class B, class T, class G = float>
concept rounded_adamw_kernel = requires(detail::kernel_words<B, T> k, const adamw_step& step,
                                        const decay_ranges& decaying, float* master, bf16* moment, const G* g,
                                        const rounding_ranges& rounding) {
  B::adamw(k.queue, step, k.n, decaying, master, moment, moment, g, k.y, rounding);
};

namespace detail {
/// Stands for what a formula brings, in a concept.
struct any_formula {
  constexpr void operator()() const {}
  template <class Offsets>
  constexpr void operator()(const Offsets&) const {}
  template <class Offsets, class Strides>
  constexpr void operator()(std::int64_t, const Offsets&, const Strides&) const {}
};
}  // namespace detail

/// once(queue, f): f(), once. each_row(queue, ndim, extents, arrays, f): f(n, offsets, strides) for runs of elements,
/// all of which are met once; arrays: the strides of each, ndim of them, 0 where it is broadcast. each_line(queue,
/// ndim, extents, arrays, width, f): f(offsets) for each element, which stands for a line of `width`. They are called
/// where the kernels run, after what the queue was given before. (Any f; it is tried with one.)
template <class B>
concept formula_kernels = requires(detail::kernel_words<B, float> k, const std::array<const std::int64_t*, 2>& arrays,
                                   detail::any_formula f) {
  B::once(k.queue, f);
  B::each_row(k.queue, 2, k.extents, arrays, f);
  B::each_line(k.queue, 2, k.extents, arrays, k.n, f);
};

/// A backend with a queue and memory of its own: what launch() asks for (docs/policies/backend.md).
template <class B>
concept backend_with_queue = requires(typename B::queue& q) {
  { B::open(1, 0, 1) } -> std::convertible_to<std::shared_ptr<typename B::queue>>;
  { B::memory() } -> std::convertible_to<memory_source>;
  {bool(B::host_memory)};
  q.synchronize();
};

/// A backend that has every kernel for elements of type T, and so runs every operator.
template <class B, class T>
concept backend_for =
    backend_with_queue<B> && memory_kernels<B> && conversion_kernel<B, T, float> && conversion_kernel<B, float, T> &&
    function_kernels<B, unary::gelu, T> && binary_kernels<B, T> && scale_kernel<B, T> && swiglu_kernels<B, T> &&
    matmul_kernel<B, T> && matmul_kernel<B, T, accumulate_t<T>> && reduction_kernel<B, T> &&
    reduction_kernel<B, T, accumulate_t<T>> && repeat_kernel<B, T> && statistics_kernels<B, T> &&
    softmax_kernels<B, T> && rms_norm_kernels<B, T> && rms_norm_kernels<B, T, accumulate_t<T>> &&
    layer_norm_kernels<B, T> && layer_norm_kernels<B, T, accumulate_t<T>> && add_norm_kernels<B, T> &&
    cross_entropy_kernels<B, T> && attention_kernels<B, T> && rope_kernel<B, T> && embedding_kernels<B, T> &&
    embedding_kernels<B, T, accumulate_t<T>> && dropout_kernel<B, T> && normal_kernel<B, T> &&
    dequantise_kernel<B, T> && adamw_kernel<B, T> && rounded_adamw_kernel<B, T> && formula_kernels<B>;

}  // namespace weft
