// The part of the laws that needs no types, compiled once; and a test that it would notice a wrong gradient.
#include "ranks.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include <weft/testing/laws.hpp>

#include "sample.hpp"

namespace laws {

void on_ranks(const weft::degrees& mesh, const std::function<void(weft::context&)>& body) {
  weft::testing::on_ranks(mesh, body);
}

void differences_agree(problem p) {
  p.options.every = weft_test::sample_stride();
  const std::vector<std::string> wrong = disagreements(p);
  for (const std::string& line : wrong) FAIL_CHECK(line);
  CHECK(wrong.empty());
}

namespace {

// x^3 summed over three numbers, with its slope times a factor, and one rank's value off by `stray`.
problem cubes(double factor, double stray) {
  const auto number = [](int i) { return 0.4 + 0.3 * i; };
  problem p{"cubes", {.every = weft_test::sample_stride()}, {}, {}, {}};
  p.at = [=](weft::context& ctx, const extents&, double step) {
    double total = ctx.size() == 1 ? stray : 0;
    for (int i = 0; i < 3; ++i) total += std::pow(number(i) + step * (i + 1), 3);
    return total;
  };
  p.slope = [=](weft::context&, const extents&) {
    double total = 0;
    for (int i = 0; i < 3; ++i) total += factor * 3 * number(i) * number(i) * (i + 1);
    return std::pair{total, total};
  };
  return p;
}

TEST_CASE(
    "the harness accepts a right gradient, and notices a wrong one, a wrong value, and one that ranks differ in") {
  const weft::testing::mesh_trials along_tp = weft::testing::trials_of<weft::strategy<weft::mesh<weft::tp>>>();
  CHECK(along_tp.meshes.size() == 6);  // 1, 2, 3, 4, 6 and 8 ranks
  CHECK(disagreements(cubes(1, 0), along_tp).empty());
  CHECK(disagreements(cubes(1, 0)).empty());
  CHECK(!disagreements(cubes(1 + 1e-6, 0)).empty());
  CHECK(!disagreements(cubes(1, 1e-6)).empty());
  problem differs = cubes(1, 0);
  differs.slope = [inner = differs.slope](weft::context& ctx, const extents& at) {
    weft::shape one;
    one.push_back(1);
    const weft::local_array x = ctx.make(weft::dtype::f64, one);
    *x.as<double>() = ctx.index<weft::tp>().here();
    require_equal_along(ctx, weft::id_of<weft::tp>, x, "x");
    return inner(ctx, at);
  };
  const auto lines = disagreements(differs);
  if (weft_test::sample_stride() == 1) {
    CHECK(lines.size() == 8);  // the meshes with several ranks along tp
    CHECK(lines.front().find("x: element 0 differs between the ranks along tp") != std::string::npos);
  }
}

}  // namespace

}  // namespace laws
