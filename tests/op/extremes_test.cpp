// Values, ties and NaN of max and argmax, over strided rows and every kind of element; formulas of a row in bf16.
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/create.hpp>
#include <weft/op/extremes.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/to_host.hpp>
#include <weft/parallel/launch.hpp>

namespace {
using namespace weft;
using weft::mesh;

void alone(const std::function<void(context&)>& f) { launch<strategy<mesh<dp>>>({}, f); }
template <class X>
double number(const X& x, int i) {
  return double(untyped(x).held().template as<typename X::element_type>()[i]);
}

template <class T>
void values() {
  alone([](context& ctx) {
    using x3 = tensor<T, dims<batch, seq, hidden>>;
    constexpr int b = 3, s = 4, h = 5;
    const auto f = [](std::int64_t i) { return double(i * 37 % 29); };
    const auto x = generate<x3>(ctx, {b, s, h}, f);
    const auto along_seq = max<seq>(x);
    const auto where_seq = argmax<seq>(x);
    static_assert(std::same_as<dims_of<decltype(along_seq)>, dims<batch, hidden>>);
    static_assert(std::same_as<typename decltype(where_seq)::element_type, std::int32_t>);
    const auto where_hidden = argmax<hidden>(x);
    for (int i = 0; i < b; ++i)
      for (int j = 0; j < h; ++j) {
        int at = 0;
        for (int k = 0; k < s; ++k)
          if (f((i * s + k) * h + j) > f((i * s + at) * h + j)) at = k;
        CHECK(number(along_seq, i * h + j) == f((i * s + at) * h + j));
        CHECK(number(where_seq, i * h + j) == at);
      }
    for (int row = 0; row < b * s; ++row) {
      int at = 0;
      for (int k = 0; k < h; ++k)
        if (f(row * h + k) > f(row * h + at)) at = k;
      CHECK(number(where_hidden, row) == at);
    }
  });
}

TEST_CASE("max and argmax of every kind of element, along strided rows as well") {
  values<double>();
  values<float>();
  values<bf16>();
  values<fp16>();
  values<std::int32_t>();
  values<std::uint8_t>();
}

TEST_CASE("ties share the gradient, argmax takes the first, and NaN is the largest") {
  alone([](context& ctx) {
    using row = tensor<double, dims<batch, hidden>>;
    const double nan = std::nan(""), of_x[] = {1, 3, 3, 2, /**/ 5, nan, 7, nan};
    auto x = from_global<row>(ctx, {2, 4}, of_x).requires_grad();
    const auto y = max<hidden>(x);
    const auto at = argmax<hidden>(x);
    CHECK((number(y, 0) == 3 && std::isnan(number(y, 1)) && number(at, 0) == 1 && number(at, 1) == 1));
    backward(sum(y));
    const double back[] = {0, 0.5, 0.5, 0, 0, 0.5, 0, 0.5};
    for (int i = 0; i < 8; ++i) CHECK(number(x.grad(), i) == back[i]);
  });
}

struct exponentials {
  static constexpr std::string_view name = "exponentials";
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    static_assert(std::same_as<T, float>);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = std::exp(x[i]);
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T>, std::span<const T> y, std::span<T> dx) const {
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK(dx[i] == 0);
      dx[i] = dy[i] * y[i];
    }
  }
};

TEST_CASE("rows of bf16 come as float and are rounded once; a recomputed layer gives the same gradient") {
  alone([](context& ctx) {
    using rows = tensor<bf16, dims<batch, hidden>>;
    const auto f = [](const auto& x) { return rowwise<batch>(exponentials{}, x); };
    auto x = normal<rows>(ctx, "x", {3, 70}).requires_grad(), z = normal<rows>(ctx, "x", {3, 70}).requires_grad();
    backward(sum(f(x)));
    backward(sum(checkpoint<checkpoint_full>(f, z)));
    for (int i = 0; i < 210; ++i) {
      const float y = bf16(std::exp(float(x.local_share()[i])));
      CHECK(number(x.grad(), i) == double(y));
      CHECK(number(z.grad(), i) == number(x.grad(), i));
    }
  });
}

TEST_CASE("many rows, several cores: the same numbers") {
  std::vector<float> one, two;
  for (std::vector<float>* to : {&one, &two})
    launch<strategy<mesh<dp>>>(
        {},
        [&](context& ctx) {
          const auto x = normal<tensor<float, dims<batch, hidden, seq>>>(ctx, "x", {50, 300, 40});
          *to = on_host(max<hidden>(x));
        },
        {.threads_per_rank = to == &one ? 1 : 2});
  CHECK((one.size() == 2000 && one == two));
}

}  // namespace
