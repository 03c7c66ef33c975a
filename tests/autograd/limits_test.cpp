// What an operator of one's own may save, read and make has no number that would be written beyond an array: entries of
// the tape and of recomputation grow, and sizes of more than 8 dimensions are refused.
#include <vector>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/create.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/to_host.hpp>

#include "traced_ranks.hpp"

namespace {
using namespace weft;
using row = tensor<double, dims<hidden>>;

// The sum of (i + 1) * x_i, which saves every input, and a copy of each as further outputs.
constexpr int many = 9;
struct weighted_sum {
  static value forward(const std::vector<row>& x) {
    const value& first = untyped(x[0]);
    local_array copies[many];
    const auto of = [&](int i) { return &untyped(x[static_cast<std::size_t>(i)]); };
    return detail::operate_like<double>(
        first, {"weighted_sum", vjp}, {of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7), of(8)},
        [&](const local_array& y) {
          for (std::int64_t k = 0; k < y.elements(); ++k) {
            y.as<double>()[k] = 0;
            for (int i = 0; i < many; ++i) y.as<double>()[k] += (i + 1) * of(i)->held().as<double>()[k];
          }
          for (int i = 0; i < 5; ++i) copies[i] = detail::copy_of<cpu_backend>(*first.ctx, of(i)->held());
        },
        [&](tape_node& node) {
          for (int i = 0; i < 5; ++i) node.save(copies[i]);
          for (int i = 5; i < many; ++i) node.save(*of(i));
        },
        {&copies[0], &copies[1], &copies[2], &copies[3], &copies[4]});
  }
  static void vjp(context& ctx, tape_node& node) {
    CHECK(node.saved_count() == many);
    CHECK_THROWS_WITH_AS(node.saved(many), doctest::Contains("saved 9 values, and its backward reads number 9"),
                         failure);
    CHECK_THROWS_WITH_AS(node.input(many), doctest::Contains("has 9 inputs, and its backward asks for number 9"),
                         failure);
    for (int i = 0; i < many; ++i) {
      local_array dx = ctx.make(dtype::f64, node.saved(i).shape);
      for (std::int64_t k = 0; k < dx.elements(); ++k)
        dx.as<double>()[k] = (i + 1) * node.output_gradient().as<double>()[k] +
                             0 * node.saved(i).as<double>()[k];  // reads what it saved
      detail::contribute<cpu_backend, double>(ctx, node, i, dx);
    }
  }
};
}  // namespace

TEST_CASE("an operator with nine inputs, nine saved values and six outputs") {
  for (const bool recompute : {false, true})
    weft_test::traced_ranks({}, [&](context& ctx, auto) {
      std::vector<row> x;
      for (int i = 0; i < many; ++i) x.push_back(full<row>(ctx, {5}, i).requires_grad());
      const auto f = [&](const row& first) -> row {
        std::vector<row> all = x;
        all[0] = first;
        return row(weighted_sum::forward(all)) * first;
      };
      const auto y = recompute ? checkpoint(f, square(x[3])) : f(square(x[3]));
      backward(sum(y));  // 9 * (9 + 240) an element: 240 is the sum of i * (i + 1) from 1 to 8
      CHECK(on_host(y)[0] == 9 * (9 + 240));
      CHECK(on_host(x[8].grad())[4] == 9 * 9);
      CHECK(on_host(x[3].grad())[4] == 9 * 4 + ((9 + 240) + 9) * 2 * 3);
      CHECK(!x[0].has_grad());
    });
}

TEST_CASE("sizes of more than 8 dimensions are refused") {
  shape s;
  for (int i = 0; i < max_ndim; ++i) s.push_back(1);
  CHECK_THROWS_WITH_AS(s.push_back(1), doctest::Contains("at most 8 dimensions"), failure);
}
