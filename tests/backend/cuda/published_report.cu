// Attention, the norms and cross-entropy at widths for which the best times are published, each at sizes that the
// device on the host can count (published.sh): published_report TASK SIZE.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "report_memory.hpp"

namespace {

using std::int64_t;
using weft::bf16;
using words = weft::cuda_backend;

// One head of 128 numbers over `seq` tokens, causal.
void attention(weft::gpu::stream& q, report_memory& m, int64_t seq) {
  const weft::attention_shape shape{1, seq, seq, 1, 1, 128, 1 / std::sqrt(128.0), true};
  const auto make = [&] { return m.make<bf16>(seq * 128); };
  bf16 *const queries = make(), *const keys = make(), *const values = make(), *const dout = make(), *const out = make(),
              *const dq = make(), *const dk = make(), *const dv = make();
  float* const sums = m.make<float>(2 * seq);
  words::attention(q, shape, queries, keys, values, out, sums);
  words::attention_backward(q, shape, queries, keys, values, out, sums, dout, dq, false, dk, false, dv, false);
}

// Rows of 4,096 numbers.
void norms(weft::gpu::stream& q, report_memory& m, int64_t rows) {
  const int64_t width = 4096, all = rows * width;
  bf16 *const x = m.make<bf16>(all), *const y = m.make<bf16>(all), *const dx = m.make<bf16>(all),
              *const w = m.make<bf16>(width), *const bias = m.make<bf16>(width);
  float *const rstd = m.make<float>(rows), *const dw = m.make<float>(width), *const db = m.make<float>(width);
  double* const mean = m.make<double>(rows);
  words::rms_norm(q, rows, width, 1e-5, x, w, y, rstd);
  words::rms_norm_backward(q, rows, width, x, w, rstd, y, dx, false, dw, false);
  words::layer_norm(q, rows, width, 1e-5, x, w, bias, y, mean, rstd);
  words::layer_norm_backward(q, rows, width, x, w, mean, rstd, y, dx, false, dw, false, db, false);
}

// Of 256,000 logits a token.
void cross_entropy(weft::gpu::stream& q, report_memory& m, int64_t tokens) {
  const int64_t vocab = 256000;
  bf16 *const logits = m.make<bf16>(tokens * vocab), *const dx = m.make<bf16>(tokens * vocab);
  const auto* const targets = m.make<std::int32_t>(tokens, static_cast<int>(vocab));
  float *const high = m.make<float>(tokens), *const exps = m.make<float>(tokens), *const logit = m.make<float>(tokens),
               *const log_sum = m.make<float>(tokens), *const loss = m.make<float>(2);
  words::row_max(q, tokens, vocab, logits, high, vocab);
  words::row_sums(q, tokens, vocab, logits, int64_t{0}, targets, high, exps, logit, static_cast<float*>(nullptr),
                  vocab);
  words::row_loss(q, tokens, targets, high, exps, logit, static_cast<const float*>(nullptr), 0.0, vocab, log_sum, loss,
                  loss + 1);
  words::cross_entropy_backward(q, tokens, vocab, logits, int64_t{0}, targets, high, log_sum, exps, 0.0, vocab, dx,
                                vocab);
}

}  // namespace

int main(int count, char** given) {
  const std::string_view task = count > 1 ? given[1] : "";
  const int64_t size = count > 2 ? std::atoll(given[2]) : 0;
  const auto start = task == "attention" ? attention
                     : task == "norms"   ? norms
                     : task == "loss"    ? cross_entropy
                                         : nullptr;
  if (!start || size < 1) {
    std::fprintf(stderr, "published_report attention|norms|loss SIZE: tokens of a sequence, rows, or tokens\n");
    return 2;
  }
  const auto queue = words::open(1, 0, 1);
  report_memory m(*queue);
  start(*queue, m, size);
  queue->synchronize();
}
