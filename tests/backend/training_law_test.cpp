// The installed laws of embedding, dropout, AdamW and loops, on the CPU's, and on backends that get one thing wrong.
#include <doctest/doctest.h>

#include <weft/backend/cpu.hpp>
#include <weft/testing/backend/choice.hpp>
#include <weft/testing/backend/training.hpp>

#include "laws_on_cpu.hpp"

namespace {
using namespace weft;
using std::int64_t;

TEST_CASE("kernels of training obey their laws on every instruction set, with the same bits for one core and three") {
  laws_on_cpu(
      [](int threads) { return testing::check_training_kernels<cpu_backend, double, float, bf16, fp16>(threads); });
}
TEST_CASE("tokens are chosen as the law says, in every element type") {
  CHECK(testing::check_choice_kernels<cpu_backend, double, float, bf16, fp16>().tried.size() == 4);
}

struct last_wins : cpu_backend {  // of rows with one id, the last gives the gradient
  template <class T, class G>
  static void embedding_backward(queue&, int64_t rows, int64_t width, const std::int32_t* ids, int64_t begin,
                                 int64_t count, const T* dy, G* d, bool add) {
    for (int64_t i = 0; !add && i < count * width; ++i) d[i] = G(0);
    for (int64_t i = 0; i < rows * width; ++i) {
      const int64_t id = ids[i / width] - begin;
      if (id >= 0 && id < count) d[id * width + i % width] = G(dy[i]);
    }
  }
};
struct local_mask : cpu_backend {  // a mask by local index
  template <class T>
  static void dropout(queue& cores, const dropout_mask& mask, placed_slice p, const T* x, T* y, bool add) {
    for (int d = 0; d < p.ndim; ++d) p.first[d] = 0, p.global[d] = p.local[d];
    cpu_backend::dropout(cores, mask, p, x, y, add);
  }
};
struct coupled : cpu_backend {  // weight decay left out
  template <class M, class G, class W>
  static void adamw(queue& cores, adamw_step step, int64_t n, const decay_ranges& decaying, M* master, M* m, M* v,
                    const G* g, W* w) {
    step.weight_decay = 0;
    cpu_backend::adamw(cores, step, n, decaying, master, m, v, g, w);
  }
};
struct decays_all : cpu_backend {  // elements that don't decay, too
  template <class M, class G, class W>
  static void adamw(queue& cores, adamw_step step, int64_t n, const decay_ranges&, M* master, M* m, M* v, const G* g,
                    W* w) {
    cpu_backend::adamw(cores, step, n, decay_ranges::all(n), master, m, v, g, w);
  }
};
struct rounds_to_nearest : cpu_backend {  // moments that are to be rounded by chance
  using cpu_backend::adamw;
  template <class G, class W>
  static void adamw(queue& cores, const adamw_step& step, int64_t n, const decay_ranges& decaying, float* master,
                    bf16* m, bf16* v, const G* g, W* w, const rounding_ranges&) {
    std::vector<float> mean(m, m + n), square(v, v + n);
    cpu_backend::adamw(cores, step, n, decaying, master, mean.data(), square.data(), g, w);
    for (int64_t i = 0; i < n; ++i)
      m[i] = bf16(mean[static_cast<std::size_t>(i)]), v[i] = bf16(square[static_cast<std::size_t>(i)]);
  }
};
struct stops_early : cpu_backend {  // a loop that leaves a run's last element out
  template <std::size_t N, class F>
  static void each_row(queue& cores, int ndim, const int64_t* extents, const std::array<const int64_t*, N>& arrays,
                       F f) {
    cpu_backend::each_row(cores, ndim, extents, arrays,
                          [&](int64_t n, const auto& at, const auto& steps) { f(n - 1, at, steps); });
  }
};

struct keeps_all : cpu_backend {  // tokens that top_p drops
  template <class T, class... Rest>
  static void choose_tokens(queue& cores, int64_t rows, int64_t vocab, const T* logits, detail::choice_rule rule,
                            const Rest&... rest) {
    rule.top_p = 1;
    cpu_backend::choose_tokens(cores, rows, vocab, logits, rule, rest...);
  }
};
struct takes_every_step : cpu_backend {  // also one that is decided against
  template <class M, class G, class W>
  static void adamw(queue& cores, adamw_step step, int64_t n, const decay_ranges& decaying, M* master, M* m, M* v,
                    const G* g, W* w) {
    if (!step.grad_scale.writes()) step.grad_scale = 1;
    cpu_backend::adamw(cores, step, n, decaying, master, m, v, g, w);
  }
};
struct does_it_twice : cpu_backend {
  template <class F>
  static void once(queue&, const F& f) {
    f(), f();
  }
};

TEST_CASE(
    "a gradient that isn't summed, a local mask, no weight decay or too much, a short loop, a step too many are told") {
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<last_wins, float>()),
                       doctest::Contains("the backend's embedding of fp32: gradient of the table"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<local_mask, float>()),
                       doctest::Contains("the backend's dropout of fp32: kept elements"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<coupled, float>()),
                       doctest::Contains("the backend's adamw of fp32: master weights: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<decays_all, float>()),
                       doctest::Contains("the backend's adamw of fp32: master weights: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<rounds_to_nearest, float>()),
                       doctest::Contains("moments in bf16 of fp32: first moment, rounded by the lower half"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<stops_early, float>()),
                       doctest::Contains("each_row of int32: it doesn't call f once for each element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<takes_every_step, float>()),
                       doctest::Contains("the backend's adamw of fp32: first moment: element"), failure);
  CHECK_THROWS_WITH_AS((testing::check_training_kernels<does_it_twice, float>()),
                       doctest::Contains("once of int32: it doesn't call f once, in the queue's order"), failure);
  CHECK_THROWS_WITH_AS((testing::check_choice_kernels<keeps_all, float>()),
                       doctest::Contains("choose_tokens of fp32: row "), failure);
}

}  // namespace
