// Programs made of formulas of elements and of rows, for any backend. Invariant: what they give back depends on the
// backend by the order of its sums alone; that of exact_formulas, whose numbers need few bits, not at all.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace weft_test {
using namespace weft;

struct bent_line {
  static constexpr std::string_view name = "bent_line";
  double slope;
  template <class T>
  WEFT_ANYWHERE T forward(T x, T b) const {
    return x > 0 ? x + b : static_cast<T>(slope) * x + b;
  }
  template <class T>
  WEFT_ANYWHERE std::array<T, 2> vjp(T dy, T x, T) const {
    return {x > 0 ? dy : static_cast<T>(slope) * dy, dy};
  }
};
struct halved {  // linear: its vjp takes the gradient alone
  static constexpr std::string_view name = "halved";
  template <class T>
  WEFT_ANYWHERE T forward(T x) const {
    return x / 2;
  }
  template <class T>
  WEFT_ANYWHERE T vjp(T dy) const {
    return dy / 2;
  }
};
struct root {  // its vjp takes its output
  static constexpr std::string_view name = "root";
  template <class T>
  WEFT_ANYWHERE T forward(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  WEFT_ANYWHERE T vjp(T dy, T, T y) const {
    return dy / (2 * y);
  }
};
struct running_sum {
  static constexpr std::string_view name = "running_sum";
  double start;
  template <class T>
  WEFT_ANYWHERE void forward(std::span<const T> x, std::span<T> y) const {
    T sum = static_cast<T>(start);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = sum += x[i];
  }
  template <class T>
  WEFT_ANYWHERE void vjp(std::span<const T> dy, std::span<const T>, std::span<const T>, std::span<T> dx) const {
    T sum = 0;
    for (std::size_t i = dx.size(); i-- > 0;) dx[i] = sum += dy[i];
  }
};

/// Numbers of every kind of formula, and of its gradients, on one rank of a backend.
template <class Backend>
std::vector<double> numbers_of_formulas(long* waits = nullptr) {
  using S = strategy<mesh<>, single_rank, Backend>;
  using x2 = basic_tensor<float, dims<seq, hidden>, place<>, Backend>;
  using x1 = basic_tensor<bf16, dims<hidden>, place<>, Backend>;
  using ids = basic_tensor<std::int32_t, dims<batch>, place<>, Backend>;
  std::vector<double> out;
  launch<S>({},
            [&](context& ctx) {
              auto x = normal<x2>(ctx, "x", {5, 7});
              auto b = normal<x1>(ctx, "b", {7});
              x.requires_grad(), b.requires_grad();
              const auto wide = cast<float>(b);
              const auto held = std::make_unique<bent_line>(bent_line{0.25});
              auto y = elementwise(*held, x, wide);
              *held = {7};  // as if it were gone
              y = elementwise(halved{}, y) + elementwise(root{}, square(y) + 1.0);
              y = maximum(y, wide) + where(y > 0.5, y, y * 2);
              y = rowwise<hidden>(running_sum{0.5}, y);
              const std::int32_t rows[] = {3, 0, 3, 4};
              const auto some = take<seq>(y, from_global<ids>(ctx, {4}, rows));  // [hidden, batch] by name
              [[maybe_unused]] auto& queue = ctx.queue<Backend>();
              const auto l = sum(square(some)) + sum(max<hidden>(y));
              backward(l);
              const auto largest = argmax<hidden>(y);
              if constexpr (requires { queue.waits(); }) {
                CHECK(queue.waits() == 0);
                CHECK(queue.to_come() > 30);
              }
              const auto note = [&](const auto& t) {
                for (const auto n : on_host(t)) out.push_back(static_cast<double>(n));
              };
              out.push_back(static_cast<double>(item(l)));
              note(y), note(some), note(largest), note(x.grad()), note(b.grad());
              if constexpr (requires { queue.waits(); })
                if (waits) *waits = queue.waits();
            },
            {.check = false});
  return out;
}

/// bf16, along dimensions that aren't the last, with ids that name an element twice, and padding of two ranks.
template <class Backend>
std::vector<double> exact_formulas(int ranks) {
  using S = strategy<mesh<tp>, Backend>;
  using x2 = basic_tensor<bf16, dims<seq, hidden, batch>, place<shard<hidden, tp>>, Backend>;
  using ids = basic_tensor<std::int32_t, dims<batch>, place<>, Backend>;
  using other_ids = basic_tensor<std::int32_t, dims<heads>, place<>, Backend>;
  std::vector<double> out;
  launch<S>(
      {.tp = ranks},
      [&](context& ctx) {
        auto x = generate<x2>(ctx, {4, 5, 3}, [](std::int64_t i) { return double(i * 7 % 11 - 5) / 4; });
        x.requires_grad();
        const auto summed = rowwise<seq>(running_sum{0.5}, x);
        const auto chosen = where(summed > x, summed, minimum(x, elementwise(halved{}, summed)));
        const std::int32_t of_batch[] = {3, 0, 3}, several[] = {1, 1, 2, 1, 0};
        const auto one_each = take<seq>(chosen, from_global<ids>(ctx, {3}, of_batch));
        const auto again = take<seq>(chosen, from_global<other_ids>(ctx, {5}, several));
        const auto largest = max<seq>(chosen);
        backward(all_reduce<tp>(sum(cast<float>(one_each)) + sum(cast<float>(again)) * 2 + sum(cast<float>(largest))));
        const auto note = [&](const auto& t) {
          const auto numbers = on_host(all_gather<tp>(t));
          if (ctx.is_first())
            for (const auto n : numbers) out.push_back(static_cast<double>(n));
        };
        note(summed), note(chosen), note(one_each), note(again), note(largest);
        note(argmax<seq>(chosen)), note(x.grad());
      },
      {.check = false});
  return out;
}

/// Each number beside the CPU's, whose sums are in another order.
inline void check_formulas_near_cpu(const std::vector<double>& got) {
  const auto want = numbers_of_formulas<cpu_backend>();
  REQUIRE(got.size() == want.size());
  CHECK(want.size() > 100);
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(got[i] - want[i]) <= 1e-5 * (1 + std::fabs(want[i])));
  }
}

}  // namespace weft_test
