// Values, ties and NaN of maximum, minimum, comparisons and where; what detach cuts off.
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include <weft/autograd/backward.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/create.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/select.hpp>
#include <weft/op/view.hpp>
#include <weft/parallel/launch.hpp>

namespace {
using namespace weft;
using weft::mesh;
using row = tensor<double, dims<hidden>>;

void alone(const std::function<void(context&)>& f) { launch<strategy<mesh<dp>>>({}, f); }
template <class X>
double number(const X& x, int i) {
  return double(untyped(x).held().template as<typename X::element_type>()[i]);
}

TEST_CASE("maximum and minimum: values, NaN, and a gradient that ties share") {
  alone([](context& ctx) {
    const double of_a[] = {1, 2, 3, std::nan("")}, of_b[] = {3, 2, 1, 0};
    auto a = from_global<row>(ctx, {4}, of_a).requires_grad(), b = from_global<row>(ctx, {4}, of_b).requires_grad();
    const auto y = maximum(a, b), z = minimum(a, b);
    const double high[] = {3, 2, 3}, low[] = {1, 2, 1}, back[] = {0, 0.5, 1};
    for (int i = 0; i < 3; ++i) CHECK((number(y, i) == high[i] && number(z, i) == low[i]));
    CHECK((std::isnan(number(y, 3)) && std::isnan(number(z, 3)) && std::isnan(number(maximum(b, a), 3))));
    backward(sum(y));
    for (int i = 0; i < 3; ++i) CHECK((number(a.grad(), i) == back[i] && number(b.grad(), i) == 1 - back[i]));
    CHECK((number(a.grad(), 3) == 1 && number(b.grad(), 3) == 1));  // of their sum, which is the NaN
  });
}

TEST_CASE("comparisons make masks, and where chooses by them") {
  alone([](context& ctx) {
    auto a = generate<row>(ctx, {3}, [](auto i) { return double(i); }).requires_grad();
    const auto b = full<row>(ctx, {3}, 1);
    for (int i = 0; i < 3; ++i) {
      CHECK((number(a > b, i) == (i > 1) && number(a < b, i) == (i < 1) && number(a >= b, i) == (i >= 1)));
      CHECK(
          (number(a <= 1, i) == (i <= 1) && number(equal(a, 1), i) == (i == 1) && number(equal(a, b), i) == (i == 1)));
    }
    const auto y = where(a > 0.5, a, b * 7.0);
    for (int i = 0; i < 3; ++i) CHECK(number(y, i) == (i > 0 ? i : 7));
    a.write_local_share([](auto&& numbers) { numbers[1] = 0; });  // which the gradient doesn't read
    backward(sum(y));
    for (int i = 0; i < 3; ++i) CHECK(number(a.grad(), i) == (i > 0));
  });
}

TEST_CASE("detach keeps the value and its placement, and lets no gradient through") {
  alone([](context& ctx) {
    auto a = full<row>(ctx, {3}, 3).requires_grad();
    backward(sum(a * detach(a)));
    CHECK(number(a.grad(), 2) == 3);        // 6 with both factors
    auto leaf = detach(a).requires_grad();  // a leaf of its own, in memory of its own
    CHECK(untyped(leaf).held().data != untyped(a).held().data);
    const auto pending = convert<partial<dp>>(a);
    static_assert(std::same_as<std::remove_cvref_t<decltype(detach(pending))>, std::remove_cvref_t<decltype(pending)>>);
    CHECK(!untyped(detach(pending)).slot);
  });
}

}  // namespace
