// Finite differences for functions with backwards of their own, in placements of every kind: of operators, of kernels,
// and with collectives in them.
#include <doctest/doctest.h>

#include <weft/op/custom_gradient.hpp>
#include <weft/op/local_map.hpp>
#include <weft/op/scalar.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

struct gate {
  static constexpr std::string_view name = "gate";
  template <class X>
  auto forward(const X& x, const X& g) const {
    const X s = sigmoid(g);
    return std::pair(x * s, std::tuple(x, s));
  }
  template <class D, class X>
  auto vjp(const D& dy, const X& x, const X& s) const {
    return std::tuple(dy * s, dy * x * s * (1.0 - s));
  }
};
struct swish_gate {  // by kernels
  static constexpr std::string_view name = "swish_gate";
  template <class X>
  auto forward(const X& x, const X& g) const {
    const auto kernel = [](auto to, auto from, auto gate) {
      for (std::int64_t i = 0; i < to.size(); ++i) to[i] = from[i] * gate[i] / (1 + std::exp(-gate[i]));
    };
    return std::pair(local_map<X>("swish_gate", kernel, x, g), std::tuple(x, g));
  }
  template <class D, class X>
  auto vjp(const D& dy, const X& x, const X& g) const {
    const linear_kernel kernel{[](auto dx, auto dg, auto d, auto from, auto gate) {
      for (std::int64_t i = 0; i < dx.size(); ++i) {
        const double s = 1 / (1 + std::exp(-gate[i]));
        dx[i] = d[i] * gate[i] * s;
        dg[i] = d[i] * from[i] * (s + gate[i] * s * (1 - s));
      }
    }};
    return local_map<D, D>("swish_gate_backward", kernel, dy, x, g);
  }
};
struct bias_and_square {  // (x + b)^2, with one loop each way
  static constexpr std::string_view name = "bias_and_square";
  template <class X, class B>
  auto forward(const X& x, const B& b) const {
    const auto kernel = [](auto to, auto from, auto bias) {
      for (std::int64_t i = 0; i < to.size(); ++i) {
        const auto v = from.number(i) + bias.number(i % bias.size());
        to.set(i, v * v);
      }
    };
    return std::pair(local_map<X>("bias_and_square", kernel, x, b), std::tuple(x, b));
  }
  template <class D, class X, class B>
  auto vjp(const D& dy, const X& x, const B& b) const {
    const linear_kernel kernel{[](auto dx, auto db, auto d, auto from, auto bias) {
      const std::int64_t width = bias.size();
      for (std::int64_t h = 0; h < width; ++h) db[h] = 0;
      for (std::int64_t i = 0; i < from.extent(batch{}) * width; ++i) {
        dx.set(i, 2 * d.number(i) * (from.number(i) + bias.number(i % width)));
        if (i < from.valid_extent(batch{}) * width) db[i % width] += dx.number(i);
      }
    }};
    return local_map<D, typename B::gradient_type>("bias_and_square_backward", kernel, dy, x, b);
  }
};
struct squares_and_sum {  // x^2, and x's sum over hidden
  static constexpr std::string_view name = "squares_and_sum";
  template <class X>
  auto forward(const X& x) const {
    return std::pair(std::tuple(x * x, sum<hidden>(x)), x);
  }
  template <class D, class E, class X>
  auto vjp(const D& squares, const E& total, const X& x) const {
    return squares * x * 2.0 + total;
  }
};
struct copied_to_all {  // as Megatron's f: nothing forward, an all-reduce backward
  static constexpr std::string_view name = "copied_to_all";
  template <class X>
  auto forward(const X& x) const {
    return convert<replicate<tp>>(x);
  }
  template <class D>
  auto vjp(const D& dy) const {
    return all_reduce<tp>(dy);
  }
};
struct summed_by_all {  // as Megatron's g: an all-reduce forward, nothing backward
  static constexpr std::string_view name = "summed_by_all";
  template <class X>
  auto forward(const X& x) const {
    return all_reduce<tp>(x);
  }
  template <class D>
  auto vjp(const D& dy) const {
    return dy;  // invariant for replicate
  }
};

TEST_CASE("functions of one tensor and of two") {
  const auto f = [](const auto& x, const auto& g) { return custom_gradient(gate{}, x, g); };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<x3, shard<batch, dp>, shard<hidden, tp>>>("gate", f);
  gradients<real<x3, replicate<tp>>, real<x3, replicate<tp>>>("gate, replicate", f);
  gradients<real<x3>, real<x3>>("gate, invariant", f);
  const auto k = [](const auto& x, const auto& g) { return custom_gradient(swish_gate{}, x, g); };
  gradients<real<x3, shard<batch, dp>, shard<hidden, tp>>, real<x3, shard<batch, dp>, shard<hidden, tp>>>("kernel", k);
  gradients<real<x3, replicate<tp>>, real<x3, replicate<tp>>>("kernel, replicate", k);
}
TEST_CASE("a kernel whose gradient is a sum") {
  using x2 = dims<batch, hidden>;
  const auto f = [](const auto& x, const auto& b) { return custom_gradient(bias_and_square{}, x, b); };
  gradients<real<x2, shard<batch, dp>>, real<dims<hidden>, replicate<dp>>>("rows", f);
  gradients<real<x2, shard<hidden, tp>>, real<dims<hidden>, shard<hidden, tp>>>("columns", f);
  gradients<real<x2, shard<batch, dp>, shard<hidden, tp>>, real<dims<hidden>, replicate<dp>, shard<hidden, tp>>>("both",
                                                                                                                 f);
  gradients<real<x2, replicate<tp>>, real<dims<hidden>, replicate<tp>>>("replicate", f);
}
TEST_CASE("functions with two outputs") {
  const auto both = [](const auto& x) {
    const auto [squares, total] = custom_gradient(squares_and_sum{}, x);
    return squares * total;
  };
  const auto one = [](const auto& x) { return std::get<1>(custom_gradient(squares_and_sum{}, x)); };
  gradients<real<x3, shard<batch, dp>>>("two outputs", both);
  gradients<real<x3, shard<seq, dp>, replicate<tp>>>("two outputs, replicate", both);
  gradients<real<x3, shard<batch, dp>>>("one of two outputs", one);
  gradients<real<x3, shard<hidden, tp>>>("a pending sum of two outputs", one);
}
TEST_CASE("functions with collectives") {
  gradients<real<x3, shard<batch, dp>>, real<dims<hidden>, shard<hidden, tp>>>(
      "f and g of Megatron", [](const auto& x, const auto& w) {
        const auto here = split<hidden, tp>(custom_gradient(copied_to_all{}, x)) * w;
        return custom_gradient(summed_by_all{}, sum<hidden>(square(here)));
      });
}

}  // namespace
