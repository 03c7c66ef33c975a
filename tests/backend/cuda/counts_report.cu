// The words of the CUDA backend, each once in bf16 at sizes that its fast kernels take (claims.sh has them), for the
// device on the host to count what they ask of memory (counts_test.sh). Compiled for sm_90a, with WEFT_FOR_SM_90A,
// those that are for it alone.
#include <cmath>

#include "report_memory.hpp"

namespace {

using std::int64_t;
using weft::bf16;
using words = weft::cuda_backend;

}  // namespace

int main() {
  const auto queue = words::open(1, 0, 1);
  weft::gpu::stream& q = *queue;
  report_memory m(q);
#ifndef WEFT_FOR_SM_90A
  const int64_t rows = 64, width = 1024, all = rows * width;
  bf16 *const x = m.make<bf16>(all), *const y = m.make<bf16>(all), *const dy = m.make<bf16>(all),
              *const dx = m.make<bf16>(all), *const w = m.make<bf16>(width), *const bias = m.make<bf16>(width);
  float *const rstd = m.make<float>(rows), *const dw = m.make<float>(width), *const db = m.make<float>(width);
  double* const mean = m.make<double>(rows);
  words::rms_norm(q, rows, width, 1e-5, x, w, y, rstd);
  words::rms_norm_backward(q, rows, width, x, w, rstd, dy, dx, false, dw, false);
  words::layer_norm(q, rows, width, 1e-5, x, w, bias, y, mean, rstd);
  words::layer_norm_backward(q, rows, width, x, w, mean, rstd, dy, dx, false, dw, false, db, false);
  words::add_rms_norm(q, rows, width, 1e-5, x, dy, w, dx, y, rstd);
  words::add_layer_norm(q, rows, width, 1e-5, x, dy, w, bias, dx, y, mean, rstd);
  words::softmax(q, rows, width, int64_t{1}, x, y);
  words::softmax_backward(q, rows, width, int64_t{1}, y, dy, dx, false);
  words::swiglu(q, all, x, dy, y);
  words::swiglu_backward(q, all, x, y, dy, dx, false, y, false);
  float *const cos = m.make<float>(rows * 64), *const sin = m.make<float>(rows * 64);
  words::rope(q, int64_t{1}, rows, width / 128, int64_t{128}, x, cos, sin, int64_t{0}, false, y, false);
  words::dropout(q, {0.1, 1, 2}, {2, {rows, width}, {rows, width}, {0, 0}, {rows, width}}, x, y, false);
  float *const master = m.make<float>(all), *const first = m.make<float>(all), *const g = m.make<float>(all);
  words::convert(q, all, x, master, false);
  weft::decay_ranges decaying;  // of matrices between vectors
  for (int64_t tensor = 0; tensor < 8; ++tensor)
    decaying.add((tensor * rows / 8 + 1) * width, (tensor + 1) * rows / 8 * width);
  const weft::adamw_step step{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1, 1};
  words::adamw(q, step, all, decaying, master, first, m.make<float>(all), g, y);
  weft::rounding_ranges rounding;
  for (int64_t tensor = 0; tensor < 8; ++tensor)
    rounding.add(tensor * rows / 8 * width,
                 {{2, {rows / 8, width}, {rows / 8, width}, {0, 0}, {rows / 8, width}}, 0, {1, 2}});
  words::adamw(q, step, all, decaying, master, dx, m.make<bf16>(all), g, y, rounding);
  words::sum_of_squares(q, all, g, mean, false);

  using weft::binary, weft::unary, weft::reduce;
  words::apply<unary::gelu>(q, all, x, y);
  words::apply_backward<unary::gelu>(q, all, x, dy, dx, false);
  words::apply(q, binary::multiply, all, x, dy, y);
  const int64_t square[2] = {rows, width}, as_it_lies[2] = {width, 1}, repeated[2] = {0, 1};
  words::apply(q, binary::add, 2, square, x, as_it_lies, bias, repeated, y);
  words::scale(q, all, 0.5, x, y, false);
  words::fill(q, {y, weft::dtype::bf16, {1, {all}}}, 1);
  const bool first_goes[2] = {true, false}, last_goes[2] = {false, true};
  words::reduce_dims<reduce::sum>(q, 2, square, first_goes, x, y, false);
  words::reduce_dims<reduce::sum>(q, 2, square, last_goes, x, y, false);
  words::repeat(q, 2, square, first_goes, bias, y, false);
  words::statistics(q, all, x);
  words::zero_not_finite(q, all, x);
  const int64_t heads[3] = {8, rows, width / 8}, by_token[3] = {width / 8, width, 1},
                by_head[3] = {all / 8, width / 8, 1};
  words::copy(q, 3, heads, {x, weft::dtype::bf16, {1, {all}}}, by_token, {y, weft::dtype::bf16, {1, {all}}}, by_head);
  // Every second column, which cuBLASLt can't describe.
  words::matmul(q, {1, 32, 64, 64}, x, {128, 2, 0}, dy, {64, 1, 0}, y, {64, 1, 0}, false);
  // Rows wider than a block holds.
  const int64_t wide = all / 2;
  bf16 *const wide_weight = m.make<bf16>(wide), *const wide_bias = m.make<bf16>(wide);
  float* const dwide = m.make<float>(wide);
  words::rms_norm(q, 2, wide, 1e-5, x, wide_weight, y, rstd);
  words::rms_norm_backward(q, 2, wide, x, wide_weight, rstd, dy, dx, false, dwide, false);
  words::layer_norm(q, 2, wide, 1e-5, x, wide_weight, wide_bias, y, mean, rstd);
  words::layer_norm_backward(q, 2, wide, x, wide_weight, mean, rstd, dy, dx, false, dwide, false, dwide, false);
  words::softmax(q, 2, wide, int64_t{1}, x, y);
  words::softmax_backward(q, 2, wide, int64_t{1}, y, dy, dx, false);
  const weft::placed_slice whole{2, {rows, width}, {rows, width}, {0, 0}, {rows, width}};
  const auto* const codes = m.make<std::uint8_t>(all, 256);
  words::dequantise(q, {weft::weight_format::int8, whole, width, 0, all, codes, codes, g}, y);
  words::dequantise(q, {weft::weight_format::nf4, whole, width, 0, all, codes, codes, g}, y);
  weft::gpu::over_elements<bf16>(
      q, all / 2,
      weft::gpu::fold_kernel<bf16>{
          all / 2, 2, 2, weft::reduction::sum, false, true, {x, x + all / 2}, {y, y + all / 2}});

  const int64_t vocab = 4096, tokens = all / 2 / vocab * 2;
  const auto* const targets = m.make<std::int32_t>(rows, static_cast<int>(vocab));
  float *const high = m.make<float>(rows), *const exps = m.make<float>(rows), *const logit = m.make<float>(rows),
               *const log_sum = m.make<float>(rows), *const loss = m.make<float>(2);
  words::row_max(q, tokens, vocab, x, high, vocab);
  words::row_sums(q, tokens, vocab, x, int64_t{0}, targets, high, exps, logit, static_cast<float*>(nullptr), vocab);
  words::row_loss(q, tokens, targets, high, exps, logit, static_cast<const float*>(nullptr), 0.0, vocab, log_sum, loss,
                  loss + 1);
  words::cross_entropy_backward(q, tokens, vocab, x, int64_t{0}, targets, high, log_sum, exps, 0.0, vocab, dx, vocab);
  const auto* const ids = m.make<std::int32_t>(rows, 64);
  words::embedding(q, rows, width, ids, int64_t{0}, rows, x, y);
  words::embedding_backward(q, rows, width, ids, int64_t{0}, rows, dy, master, false);
  const weft::detail::choice_rule rule{1.2, 50, 0.9, -4, 1.1};
  std::vector<std::int32_t> penalised(64);  // a token of each 64
  for (int i = 0; i < 64; ++i) penalised[static_cast<std::size_t>(i)] = 64 * i + i;
  const weft::detail::choice_of_text texts[4] = {{0.1, 0, 64}, {0.4, 0, 64}, {0.6, 0, 64}, {0.9, 0, 64}};
  weft::detail::chosen_token chosen[4];
  words::choose_tokens(q, int64_t{4}, vocab, x, rule, texts, penalised.data(), std::ssize(penalised), chosen);
  // A weight's gradient, both of whose operands lie along what isn't summed.
  using weft::float8_form;
  const int64_t tokens_of_8 = 256, outs = all / tokens_of_8;
  words::float8_matmul(q, {1, outs, outs, tokens_of_8}, x, {1, outs, 0}, float8_form::e5m2, dy, {outs, 1, 0},
                       float8_form::e4m3, m.make<float>(outs * outs), {outs, 1, 0}, false);
#endif

  const auto attention = [&](int64_t d, const std::int32_t* documents = nullptr) {
    const int64_t seq = 128, heads = 2, size = seq * heads * d;
    const weft::attention_shape shape{1,    seq, seq,      heads, heads, d, 1 / std::sqrt(static_cast<double>(d)),
                                      true, 0,   documents};
    const auto make = [&] { return m.make<bf16>(size); };
    bf16 *const queries = make(), *const keys = make(), *const values = make(), *const out = make();
    float* const sums = m.make<float>(2 * heads * seq);
    words::attention(q, shape, queries, keys, values, out, sums);
    bf16 *const dout = make(), *const dq = make(), *const dk = make(), *const dv = make();
    words::attention_backward(q, shape, queries, keys, values, out, sums, dout, dq, false, dk, false, dv, false);
  };
#ifdef WEFT_FOR_SM_90A
  std::int32_t* const documents = m.make<std::int32_t>(128, 1);  // one, as long as the sequence
  for (const int64_t d : {64, 128}) attention(d), attention(d, documents);
#else
  attention(32);  // not on the tensor cores
  for (const int64_t d : {64, 128, 96, 256}) attention(d);
#endif
  q.synchronize();
}
