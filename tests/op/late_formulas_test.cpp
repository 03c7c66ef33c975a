// Formulas, and operators that are made of them, on a queue that runs behind its host: a formula is a kernel that has
// what it reads by value, so it may be gone when its turn comes.
#include <memory>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "../backend/late_backend.hpp"

namespace {
using namespace weft;
using weft_test::late_backend;

struct bent_line {
  static constexpr std::string_view name = "bent_line";
  double slope;
  template <class T>
  T forward(T x, T b) const {
    return x > 0 ? x + b : static_cast<T>(slope) * x + b;
  }
  template <class T>
  std::array<T, 2> vjp(T dy, T x, T) const {
    return {x > 0 ? dy : static_cast<T>(slope) * dy, dy};
  }
};
struct halved {  // linear: its vjp takes the gradient alone
  static constexpr std::string_view name = "halved";
  template <class T>
  T forward(T x) const {
    return x / 2;
  }
  template <class T>
  T vjp(T dy) const {
    return dy / 2;
  }
};
struct root {  // its vjp takes its output
  static constexpr std::string_view name = "root";
  template <class T>
  T forward(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  T vjp(T dy, T, T y) const {
    return dy / (2 * y);
  }
};
struct running_sum {
  static constexpr std::string_view name = "running_sum";
  double start;
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    T sum = static_cast<T>(start);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = sum += x[i];
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T>, std::span<const T>, std::span<T> dx) const {
    T sum = 0;
    for (std::size_t i = dx.size(); i-- > 0;) dx[i] = sum += dy[i];
  }
};

template <class Backend>
std::vector<double> numbers(long* waits = nullptr) {
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
              const auto l = sum(square(some)) + sum(max<hidden>(y));
              backward(l);
              const auto largest = argmax<hidden>(y);
              if constexpr (Backend::queue::runs_behind) {
                CHECK(ctx.queue<Backend>().waits() == 0);
                CHECK(ctx.queue<Backend>().to_come() > 30);
              }
              const auto note = [&](const auto& t) {
                for (const auto n : on_host(t)) out.push_back(static_cast<double>(n));
              };
              out.push_back(static_cast<double>(item(l)));
              note(y), note(some), note(largest), note(x.grad()), note(b.grad());
              if constexpr (Backend::queue::runs_behind)
                if (waits) *waits = ctx.queue<Backend>().waits();
            },
            {.check = false});
  return out;
}

TEST_CASE("late: formulas of elements and of rows, and what is made of them") {
  long waits = 0;
  const auto late = numbers<late_backend>(&waits);
  CHECK(late.size() > 100);
  CHECK(late == numbers<cpu_backend>());
  CHECK(waits == 6);  // one for each tensor that was read
}

}  // namespace
