// A function that runs twice along another dimension, by another formula of the same name or with other numbers within
// a formula: every size is the same, and yet it is refused.
#include <array>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;
using square_matrix = tensor<float, dims<batch, hidden>>;

template <bool Twice>
struct bent {
  static constexpr std::string_view name = "bent";
  double forward(double x) const { return (Twice ? 2 : 3) * x; }
  double vjp(double dy) const { return (Twice ? 2 : 3) * dy; }
};
template <bool Above>
struct chosen {
  static constexpr std::string_view name = "chosen";
  bool forward(double x) const { return Above ? x > 0 : x < 0; }
};
struct table_entry {
  static constexpr std::string_view name = "table_entry";
  std::array<double, 4> table;
  int which;
  double forward(double x) const { return table[static_cast<std::size_t>(which)] * x; }
  double vjp(double dy) const { return table[static_cast<std::size_t>(which)] * dy; }
};
struct made_of_a_number {
  static constexpr std::string_view name = "made_of_a_number";
  explicit made_of_a_number(double n) : by(n) {}
  double forward(double x) const { return by * x; }
  double vjp(double dy) const { return by * dy; }
  double by;
};
struct twice_the_first {
  static constexpr std::string_view name = "twice_the_first";
  template <class T>
  void forward(std::span<const T> x, std::span<T> y) const {
    y[0] = 2 * x[0];
  }
  template <class T>
  void vjp(std::span<const T> dy, std::span<const T>, std::span<const T>, std::span<T> dx) const {
    dx[0] = 2 * dy[0];
  }
};
// Dimension To in place of From, whatever has that name going by another.
template <class From, class To, class X>
auto swapped(const X& x) {
  return rename<ffn, To>(rename<To, From>(rename<From, ffn>(x)));
}
// Runs `first`, and `second` when the gradient is due.
template <class First, class Second>
void refuses(First first, Second second) {
  launch<strategy<mesh<>>>({}, [&](context& ctx) {
    const auto x = from_global<square_matrix>(ctx, {2, 2}, std::array<float, 4>{-1, 2, 3, 5}).requires_grad();
    const auto run = [&](auto f, auto g) {
      bool again = false;
      const auto y = checkpoint([&](const auto& h) { return again ? g(h) : f(h); }, x);
      again = true;
      backward(sum(square(y)));
    };
    CHECK_NOTHROW(run(first, first));
    CHECK_NOTHROW(run(second, second));
    CHECK_THROWS_WITH_AS(run(first, second), doctest::Contains("with other numbers, dimensions or types at first"),
                         failure);
  });
}
}  // namespace

TEST_CASE("a checkpointed function that works along another dimension the second time") {
  refuses([](const auto& h) { return sum<batch>(h); },
          [](const auto& h) { return rename<batch, hidden>(sum<hidden>(h)); });
  refuses([](const auto& h) { return mean<batch>(h); },
          [](const auto& h) { return rename<batch, hidden>(mean<hidden>(h)); });
  refuses([](const auto& h) { return max<batch>(h); },
          [](const auto& h) { return rename<batch, hidden>(max<hidden>(h)); });
  refuses([](const auto& h) { return rowwise<batch>(twice_the_first{}, h); },
          [](const auto& h) { return rowwise<hidden>(twice_the_first{}, h); });
  refuses([](const auto& h) { return permute<batch, hidden>(h); },
          [](const auto& h) { return swapped<batch, hidden>(permute<hidden, batch>(h)); });
  refuses([](const auto& h) { return contract<hidden>(h, rename<batch, seq>(h)); },
          [](const auto& h) {
            const auto t = rename<batch, ffn>(h);
            return contract<ffn>(rename<hidden, batch>(t), rename<hidden, seq>(t));
          });
  const auto two = [](const auto& h) { return ones<tensor<float, dims<hidden>>>(*untyped(h).ctx, {2}); };
  refuses([two](const auto& h) { return h * two(h); },
          [two](const auto& h) { return h * rename<hidden, batch>(two(h)); });
}
TEST_CASE("a checkpointed function that sums over axes in another order the second time, of what wants no gradient") {
  const auto pending = [](const auto& h) {
    return convert<partial<tp>>(convert<partial<dp>>(ones<tensor<float, dims<>>>(*untyped(h).ctx, {})));
  };
  refuses([pending](const auto& h) { return h * all_reduce<dp>(all_reduce<tp>(pending(h))); },
          [pending](const auto& h) { return h * all_reduce<tp>(all_reduce<dp>(pending(h))); });
}
TEST_CASE("a checkpointed function with another formula of one name, or other numbers in it, the second time") {
  refuses([](const auto& h) { return elementwise(bent<true>{}, h); },
          [](const auto& h) { return elementwise(bent<false>{}, h); });
  refuses([](const auto& h) { return where(elementwise(chosen<true>{}, h), h, 3 * h); },
          [](const auto& h) { return where(elementwise(chosen<false>{}, h), h, 3 * h); });
  refuses(
      [](const auto& h) {
        return elementwise(table_entry{{1, 2, 3, 4}, 3}, h);
      },
      [](const auto& h) {
        return elementwise(table_entry{{1, 2, 3, 4}, 2}, h);
      });
  refuses(
      [](const auto& h) {
        return elementwise(table_entry{{1, 2, 3, 4}, 3}, h);
      },
      [](const auto& h) {
        return elementwise(table_entry{{1, 2, 3, 5}, 3}, h);
      });
}
TEST_CASE("a checkpointed function with a formula that is made of a number only") {
  launch<strategy<mesh<>>>({}, [&](context& ctx) {
    const auto x = full<square_matrix>(ctx, {2, 2}, 3).requires_grad();
    backward(sum(checkpoint([](const auto& h) { return elementwise(made_of_a_number(2), h); }, x)));
    CHECK(on_host(x.grad()) == std::vector<float>(4, 2));
  });
}
