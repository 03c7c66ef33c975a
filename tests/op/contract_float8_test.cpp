// A contraction in 8 bits is the contraction of the rounded operands, and its gradients are those of rounded ones; on
// every mesh, with padding, and by a backend's own product where it has one.
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using numbers = std::vector<double>;

// x as the tensor's type has it, rounded to 8 bits under the scale of all of it.
numbers rounded(const numbers& x, float8_form form) {
  float largest = 0;
  for (const double v : x) largest = std::fmax(largest, std::fabs(static_cast<float>(v)));
  const float scale = weft::detail::float8_scale(form, largest);
  numbers out;
  for (const double v : x) out.push_back(weft::detail::rounded_to_float8(form, scale, static_cast<float>(v)));
  return out;
}

// y [rows, outs] = a [rows, in] b [outs, in], and the gradients for dy.
struct product {
  std::size_t rows, outs, in;
  numbers a, b, dy;

  numbers y() const {
    const numbers p = rounded(a, float8_form::e4m3), q = rounded(b, float8_form::e4m3);
    numbers out;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < outs; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < in; ++k) sum += p[i * in + k] * q[j * in + k];
        out.push_back(sum);
      }
    return out;
  }
  numbers da() const {
    const numbers g = rounded(dy, float8_form::e5m2), q = rounded(b, float8_form::e4m3);
    numbers out(rows * in);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < outs; ++j)
        for (std::size_t k = 0; k < in; ++k) out[i * in + k] += g[i * outs + j] * q[j * in + k];
    return out;
  }
  numbers db() const {
    const numbers g = rounded(dy, float8_form::e5m2), p = rounded(a, float8_form::e4m3);
    numbers out(outs * in);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < outs; ++j)
        for (std::size_t k = 0; k < in; ++k) out[j * in + k] += g[i * outs + j] * p[i * in + k];
    return out;
  }
};
numbers drawn(std::size_t n, double seed) {
  numbers out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(
        static_cast<bf16>((1.2 + std::sin(seed + 1.7 * double(i))) * (i % 3 ? 1 : -1) * std::exp2(-double(i % 5))));
  return out;
}
product drawn(std::size_t rows, std::size_t outs, std::size_t in) {
  return {rows, outs, in, drawn(rows * in, 1), drawn(outs * in, 2), drawn(rows * outs, 3)};
}
void near(const char* what, const numbers& got, const numbers& want, double step) {
  INFO(what);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(i);
    CHECK(std::fabs(got[i] - want[i]) <= step * (1 + std::fabs(want[i])));
  }
}

template <class T>
constexpr double step_of = sizeof(T) == 8          ? 1e-12
                           : sizeof(T) == 4        ? 1e-5
                           : std::same_as<T, fp16> ? 2e-3
                                                   : 1e-2;

numbers whole(const auto& x) {
  const auto wide = cast<double>(detach(x));
  constexpr holds kind = state_on<layout_of<std::decay_t<decltype(x)>>, tp>.kind;
  if constexpr (kind == holds::partial)
    return on_host(all_reduce<tp>(wide));
  else if constexpr (kind == holds::shard)
    return on_host(all_gather<tp>(wide));
  else
    return on_host(wide);
}
// y and both gradients, of operands that are placed so and whose padding is NaN.
template <class T, class A, class B, class Backend = cpu_backend>
std::array<numbers, 3> computed(context& ctx, const product& p) {
  const auto made = [&]<class X>(X, std::size_t m, std::size_t n, const numbers& x) {
    X out = generate<X>(ctx, {std::int64_t(m), std::int64_t(n)}, [&](std::int64_t i) { return x[std::size_t(i)]; });
    out.write_local_share([&](auto all) {
      detail::each_element(detail::placed(out), [&](std::int64_t i, std::int64_t index) {
        if (index < 0) all[std::size_t(i)] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      });
    });
    return out;
  };
  auto a = made(basic_tensor<T, dims<batch, hidden>, A, Backend>(), p.rows, p.in, p.a);
  auto b = made(basic_tensor<T, dims<ffn, hidden>, B, Backend>(), p.outs, p.in, p.b);
  a.requires_grad(), b.requires_grad();
  const auto y = contract_float8<hidden>(a, b);
  const auto dy = made(typename std::decay_t<decltype(y)>::gradient_type(), p.rows, p.outs, p.dy);
  const numbers out = whole(y);
  untyped(y).slot->gradient = untyped(dy).data, untyped(y).slot->has_gradient = true;
  ctx.tape->backward(ctx);
  return {out, whole(a.grad()), whole(b.grad())};
}
void right(const std::array<numbers, 3>& got, const product& p, double step) {
  near("y", got[0], p.y(), step), near("da", got[1], p.da(), step), near("db", got[2], p.db(), step);
}
using rows_cut = place<shard<batch, tp>>;
using outs_cut = place<shard<ffn, tp>>;
using sums_cut = place<shard<hidden, tp>>;
using copies = place<replicate<tp>>;

}  // namespace

TEST_CASE_TEMPLATE("a contraction in 8 bits is that of the rounded operands, and so are its gradients", T, double,
                   float, bf16, fp16) {
  for (const auto& size : {std::array<std::size_t, 3>{5, 7, 6}, {32, 16, 48}, {1, 1, 1}}) {
    const product p = drawn(size[0], size[1], size[2]);
    launch<strategy<mesh<tp>>>({}, [&](context& ctx) { right(computed<T, place<>, place<>>(ctx, p), p, step_of<T>); });
  }
}

TEST_CASE("the same on three ranks, whatever is cut, and however unevenly") {
  for (const product& p : {drawn(7, 5, 8), drawn(2, 2, 2)})  // of 2 one rank has nothing
    launch<strategy<mesh<tp>>>({.tp = 3}, [&](context& ctx) {
      right(computed<double, rows_cut, copies>(ctx, p), p, 1e-12);
      right(computed<double, copies, outs_cut>(ctx, p), p, 1e-12);
      right(computed<double, sums_cut, sums_cut>(ctx, p), p, 1e-12);
    });
}

namespace {
// A backend with a product of its own, which takes what has no row of 7.
struct calls {
  int taken = 0, left = 0;
};
thread_local calls counted;
struct multiplying_backend : cpu_backend {
  template <class T, class Out>
  static bool float8_matmul(queue&, const matmul_shape& size, const T* a, const strides& sa, float8_form of_a,
                            const T* b, const strides& sb, float8_form of_b, Out* c, const strides& sc, bool add) {
    REQUIRE(size.batch == 1);
    REQUIRE(sc.column == 1);
    REQUIRE((of_a == float8_form::e4m3 || of_b == float8_form::e4m3));
    if (size.m == 7 || size.n == 7 || size.k == 7) return ++counted.left, false;
    ++counted.taken;
    numbers x, y;
    for (std::int64_t i = 0; i < size.m; ++i)
      for (std::int64_t k = 0; k < size.k; ++k) x.push_back(a[i * sa.row + k * sa.column]);
    for (std::int64_t k = 0; k < size.k; ++k)
      for (std::int64_t j = 0; j < size.n; ++j) y.push_back(b[k * sb.row + j * sb.column]);
    x = rounded(x, of_a), y = rounded(y, of_b);
    for (std::int64_t i = 0; i < size.m; ++i)
      for (std::int64_t j = 0; j < size.n; ++j) {
        double sum = add ? c[i * sc.row + j] : 0;
        for (std::int64_t k = 0; k < size.k; ++k)
          sum += x[std::size_t(i * size.k + k)] * y[std::size_t(k * size.n + j)];
        c[i * sc.row + j] = static_cast<Out>(sum);
      }
    return true;
  }
};
}  // namespace

TEST_CASE("a backend's own product is taken for each of the three, and where it can't the numbers are multiplied") {
  const auto counts = [](const product& p, auto run) {
    counted = {};
    launch<strategy<mesh<tp>, multiplying_backend>>({}, [&](context& ctx) { right(run(ctx, p), p, 1e-12); });
    return std::pair{counted.taken, counted.left};
  };
  const auto alone = [](context& ctx, const product& p) {
    return computed<double, place<>, place<>, multiplying_backend>(ctx, p);
  };
  CHECK(counts(drawn(6, 4, 5), alone) == std::pair{3, 0});
  CHECK(counts(drawn(7, 4, 5), alone) == std::pair{0, 3});
  // What padding holds would count: ranks that have some don't take it.
  launch<strategy<mesh<tp>, multiplying_backend>>({.tp = 3}, [&](context& ctx) {
    counted = {};
    const product p = drawn(8, 4, 5);
    right(computed<double, rows_cut, copies, multiplying_backend>(ctx, p), p, 1e-12);
    CHECK(counted.taken == (ctx.rank() == 2 ? 0 : 3));
  });
}

TEST_CASE("what isn't finite stays so, zeros give zeros, and the smallest numbers keep their digits") {
  launch<strategy<mesh<tp>>>({}, [](context& ctx) {
    using X = basic_tensor<float, dims<batch, hidden>, place<>, cpu_backend>;
    using W = basic_tensor<float, dims<ffn, hidden>, place<>, cpu_backend>;
    const auto ones = full<W>(ctx, {2, 3}, 1.0);
    const auto of = [&](float first, float second) {
      return on_host(contract_float8<hidden>(
          generate<X>(ctx, {2, 3}, [=](std::int64_t i) { return i == 0   ? first
                                                                : i == 3 ? second
                                                                         : 0; }), ones));
    };
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
      const auto y = of(bad, 0.5f);
      CHECK(std::isnan(y[0]));
      CHECK(y[2] == 0.5f);
    }
    CHECK(of(0, 0) == std::vector<float>(4, 0));
    CHECK(of(1e-38f, 0)[0] == doctest::Approx(1e-38f).epsilon(1.0 / 16));
    CHECK(of(3e38f, 0)[0] == doctest::Approx(3e38f).epsilon(1.0 / 16));
    CHECK(of(448, 0x1p-9f)[2] == 0x1p-9f);  // the smallest that is kept beside 448
    CHECK(of(448, 0x1p-10f)[2] == 0);
  });
}
