// Finite differences for operators made of formulas of a row, and for max, in placements of every kind.
#include <cmath>

#include <doctest/doctest.h>

#include <weft/op/extremes.hpp>

#include "gradients.hpp"

namespace {

using namespace laws;
using x3 = dims<batch, seq, hidden>;

struct logsumexp {  // a number of a row
  static constexpr std::string_view name = "logsumexp";
  template <class T>
  T forward(std::span<const T> x) const {
    T total = 0;
    for (const T v : x) total += std::exp(v);
    return std::log(total);
  }
  template <class T>
  void vjp(T dy, std::span<const T> x, T y, std::span<T> dx) const {
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] = dy * std::exp(x[i] - y);
  }
};
struct l2_normalize {  // a row of a row
  static constexpr std::string_view name = "l2_normalize";
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    T squares = 0;
    for (const T v : x) squares += v * v;
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / std::sqrt(squares);
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T> x, std::span<const T> y, std::span<T> dx) const {
    T squares = 0, along = 0;
    for (std::size_t i = 0; i < x.size(); ++i) squares += x[i] * x[i], along += dy[i] * y[i];
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] = (dy[i] - along * y[i]) / std::sqrt(squares);
  }
};
struct softmax_row {  // reads its output alone in the backward
  static constexpr std::string_view name = "softmax_row";
  static constexpr bool keeps_input = false;
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    T total = 0;
    for (std::size_t i = 0; i < x.size(); ++i) total += y[i] = std::exp(x[i]);
    for (T& v : y) v /= total;
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T> y, std::span<T> dx) const {
    T along = 0;
    for (std::size_t i = 0; i < y.size(); ++i) along += dy[i] * y[i];
    for (std::size_t i = 0; i < y.size(); ++i) dx[i] = (dy[i] - along) * y[i];
  }
};
struct squares {  // its input alone
  static constexpr std::string_view name = "squares";
  static constexpr bool keeps_output = false;
  template <class T>
  T forward(std::span<const T> x) const {
    T total = 0;
    for (const T v : x) total += v * v;
    return total;
  }
  template <class T>
  void vjp(T dy, std::span<const T> x, std::span<T> dx) const {
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] = 2 * dy * x[i];
  }
};

TEST_CASE("formulas that make a number of a row") {
  const auto last = [](const auto& x) { return rowwise<hidden>(logsumexp{}, x); };
  const auto middle = [](const auto& x) { return rowwise<seq>(squares{}, x); };
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>("logsumexp, sharded", last);
  gradients<real<x3, shard<seq, tp, dp>>>("logsumexp, over two axes", last);
  gradients<real<x3, replicate<tp>>>("squares, replicate", middle);
  gradients<real<x3, shard<batch, tp>, shard<hidden, dp>>>("squares, strided", middle);
  gradients<real<dims<hidden>>>("logsumexp of a vector", last);
}

TEST_CASE("formulas that make a row of a row") {
  const auto last = [](const auto& x) { return rowwise<hidden>(l2_normalize{}, x); };
  const auto middle = [](const auto& x) { return rowwise<seq>(softmax_row{}, x); };
  const options wide{.base = {{hidden{}, 5}, {seq{}, 4}}};
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>("l2_normalize, sharded", last, wide);
  gradients<real<x3, replicate<dp>>>("l2_normalize, replicate", last, wide);
  gradients<real<x3, shard<batch, tp>, shard<hidden, dp>>>("softmax_row, strided", middle, wide);
  gradients<real<dims<seq>>>("softmax_row of a vector", middle, wide);
}

// x plus 3, 6, 9, ... along D, in another order in every row, so that the largest is never near another.
template <class D>
auto apart(const auto& x) {
  const auto size = [&]<class E>(E) { return x.template global_extent<E>(); };
  const std::int64_t s = size(seq{}), h = size(hidden{});
  const bool along_seq = std::same_as<D, seq>;
  using X = std::remove_cvref_t<decltype(x)>;
  return x + generate<X>(*untyped(x).ctx, {size(batch{}), s, h}, [=](std::int64_t i) {
           const std::int64_t row = along_seq ? i / (s * h) * h + i % h : i / h;
           return 3.0 * double(((along_seq ? i / h % s : i % h) + row) % (along_seq ? s : h));
         });
}

TEST_CASE("max along a dimension") {
  const options wide{.base = {{hidden{}, 5}, {seq{}, 4}}};
  gradients<real<x3, shard<batch, dp>, shard<seq, tp>>>(
      "max, sharded", [](const auto& x) { return max<hidden>(apart<hidden>(x)); }, wide);
  gradients<real<x3, shard<hidden, tp, dp>>>(
      "max, strided, over two axes", [](const auto& x) { return max<seq>(apart<seq>(x)); }, wide);
  gradients<real<x3>>("max, then used by ranks apart",
                      [](const auto& x) { return split<batch, tp>(max<seq>(apart<seq>(x))); },
                      {.base = {{hidden{}, 3}, {seq{}, 4}}, .divided = {batch{}}});
}

}  // namespace
