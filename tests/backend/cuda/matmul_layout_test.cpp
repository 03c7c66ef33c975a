// Strided products as cuBLASLt is told them, and the kernel for those it can't be told: against cpu::matmul.
#include <backend/kernel_testing.hpp>

#include <weft/backend/cpu/matmul.hpp>

#include "host_queue.hpp"

using namespace weft_test;
using weft::matmul_shape;
using weft::strides;

namespace {

// Strides for rows x columns, by layout: 0 row-major, 1 transposed, 2 row-major with a gap, 3 transposed with a gap,
// 4 neither contiguous. `span`: elements of one matrix.
strides laid_out(int layout, int64 rows, int64 columns, int64& span) {
  const int64 gap = layout >= 2 ? 3 : 0;
  strides s;
  if (layout % 2 == 0)
    s = {columns + gap, 1, 0}, span = rows * s.row;
  else
    s = {1, rows + gap, 0}, span = columns * s.column;
  if (layout == 4) s = {2 * columns, 2, 0}, span = rows * s.row;
  s.batch = span + 5;
  return s;
}

template <class T, class Out>
void product_alike(const matmul_shape& size, int la, int lb, bool accumulate, host_queue& queue) {
  CAPTURE(size.batch);
  CAPTURE(size.m);
  CAPTURE(size.n);
  CAPTURE(size.k);
  CAPTURE(la);
  CAPTURE(lb);
  CAPTURE(accumulate);
  team cores;
  int64 span_a, span_b, span_c;
  const strides sa = laid_out(la, size.m, size.k, span_a), sb = laid_out(lb, size.k, size.n, span_b);
  const strides sc = laid_out(2, size.m, size.n, span_c);
  const auto a = numbers<T>(size.batch * sa.batch, 1), b = numbers<T>(size.batch * sb.batch, 2);
  auto got = numbers<Out>(size.batch * sc.batch, 3), want = got;
  weft::cpu::matmul(cores, size, a.data(), sa, b.data(), sb, want.data(), sc, accumulate);
  host_cuda_backend::matmul(queue, size, a.data(), sa, b.data(), sb, got.data(), sc, accumulate);
  // Sums of k products of at most 4 with a rounding each, in some order; then one rounding of the output.
  const double of_sums = 4.0 * static_cast<double>(size.k * size.k + 1) * sum_rounding<weft::accumulate_t<T>>;
  check_close(got, widened(want), 2 * rounding<Out>, of_sums);
}

}  // namespace

TEST_CASE_TEMPLATE("products by the library's description", T, float, double, bf16, fp16) {
  host_queue queue;
  int products = 0;
  for (const matmul_shape& size :
       {matmul_shape{1, 5, 7, 4}, {3, 4, 6, 5}, {1, 1, 8, 3}, {1, 6, 1, 3}, {2, 3, 5, 1}, {1, 1, 1, 1}})
    for (int la = 0; la < 4; ++la)
      for (int lb = 0; lb < 4; ++lb) {
        product_alike<T, T>(size, la, lb, (la + lb) % 2 == 0, queue);
        product_alike<T, std::conditional_t<sizeof(T) == 2, float, T>>(size, la, lb, (la + lb) % 2 == 1, queue);
        products += 2;
      }
  CHECK(queue.multiplied == products);  // every one could be described
  CHECK(queue.started == 0);
}

TEST_CASE_TEMPLATE("products by our own kernel, where nothing is contiguous or the library refuses", T, float, bf16) {
  host_queue queue;
  product_alike<T, T>({2, 5, 7, 6}, 4, 0, false, queue);
  product_alike<T, T>({2, 5, 7, 6}, 1, 4, true, queue);
  CHECK(queue.multiplied == 0);
  queue.library = false;
  product_alike<T, float>({1, 9, 8, 7}, 0, 1, true, queue);
  CHECK(queue.started == 3);
}

TEST_CASE("a sum over nothing is zero, or what was there") {
  host_queue queue;
  for (const bool accumulate : {false, true}) product_alike<float, float>({2, 3, 4, 0}, 0, 0, accumulate, queue);
  product_alike<float, float>({1, 0, 4, 2}, 0, 0, false, queue);
  CHECK(queue.multiplied == 0);
}

TEST_CASE("a bias and gelu go to the library with the product, or nothing does") {
  host_queue queue;
  const auto x = numbers<float>(64, 1);
  std::vector<float> got(40, 77.0f), between = got;
  const auto with = [&](const matmul_shape& size, const strides& sa) {
    return host_cuda_backend::matmul(queue, size, x.data(), sa, x.data() + 30, {8, 1, 0}, got.data(), {8, 1, 0},
                                     {x.data() + 3, between.data()});
  };
  CHECK(with({1, 5, 8, 4}, {4, 1, 0}));
  CHECK(queue.multiplied == 1);
  CHECK(queue.started == 0);
  CHECK(between[9] != 77.0f);
  CHECK(got[9] == doctest::Approx(
                      0.5 * between[9] *
                      (1 + std::tanh(0.7978845608 * (between[9] + 0.044715 * between[9] * between[9] * between[9])))));
  got.assign(40, 77.0f);
  CHECK_FALSE(with({1, 5, 8, 4}, {8, 2, 0}));  // no description
  CHECK_FALSE(with({1, 5, 8, 0}, {4, 1, 0}));  // nothing to multiply
  CHECK_FALSE(with({1, 0, 8, 4}, {4, 1, 0}));
  queue.library = false;
  CHECK_FALSE(with({1, 5, 8, 4}, {4, 1, 0}));
  CHECK(got == std::vector<float>(40, 77.0f));
  CHECK(queue.started == 0);
}

TEST_CASE("what a description may say") {
  using weft::gpu::as_blas_product;
  const matmul_shape size{1, 4, 6, 5};
  CHECK(as_blas_product(size, {5, 1, 0}, {6, 1, 0}, {6, 1, 0}).fits);
  CHECK_FALSE(as_blas_product(size, {10, 2, 0}, {6, 1, 0}, {6, 1, 0}).fits);
  CHECK_FALSE(as_blas_product(size, {0, 1, 0}, {6, 1, 0}, {6, 1, 0}).fits);  // rows that overlap
  CHECK_FALSE(as_blas_product(size, {4, 1, 0}, {6, 1, 0}, {6, 1, 0}).fits);
  CHECK_FALSE(as_blas_product(size, {5, 1, 0}, {6, 1, 0}, {1, 4, 0}).fits);  // an output with its columns apart
  CHECK_THROWS_WITH_AS(([&] {
                         host_queue queue;
                         float x[64] = {};
                         host_cuda_backend::matmul(queue, size, x, {5, 1, 0}, x, {6, 1, 0}, x, {1, 4, 0}, false);
                       }()),
                       "matmul: the column stride of c must be 1, not 4.", weft::failure);
}
