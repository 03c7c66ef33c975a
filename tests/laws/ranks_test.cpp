// The part of the laws that needs no types, compiled once; and a test that it would notice a wrong gradient.
#include "ranks.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include <weft/comm/threads.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/tensor/random.hpp>

#include "sample.hpp"

namespace laws {

void on_ranks(const weft::degrees& mesh, const std::function<void(weft::context&)>& body) {
  weft::launch<weft::strategy<weft::mesh<weft::dp, weft::tp>, weft::threads>>(mesh, body);
}

double world_sum(weft::context& ctx, double x) {
  double out = 0;
  ctx.world.all_reduce(&x, &out, 1, weft::dtype::f64, weft::reduction::sum).wait();
  return out;
}

void require_equal_along(weft::context& ctx, weft::axis_id axis, const weft::array& data, const char* what) {
  weft::axis_group* group = ctx.group(axis);
  if (!group) return;
  weft::array low = ctx.make(data.type, data.shape), high = ctx.make(data.type, data.shape);
  group->comm.all_reduce(data.data, low.data, data.elements(), data.type, weft::reduction::min).wait();
  group->comm.all_reduce(data.data, high.data, data.elements(), data.type, weft::reduction::max).wait();
  weft::visit_dtype(data.type, [&]<class T>() {
    for (std::int64_t i = 0; i < data.elements(); ++i)
      weft::require(low.as<T>()[i] == high.as<T>()[i], what, ": element ", i, " differs between the ranks along ",
                    std::string(group->name), ": ", double(low.as<T>()[i]), " and ", double(high.as<T>()[i]));
  });
}

namespace {

struct answer {
  double value, slope, magnitude, difference;
};

extents draw(const problem& p, const weft::degrees& mesh, std::uint64_t trial) {
  const weft::philox numbers{trial, weft::stream_of(p.what)};
  extents out;
  for (std::size_t i = 0; i < p.dims.size(); ++i) {
    const problem::dim& d = p.dims[i];
    std::int64_t n = 1 + numbers.word(i) % 4;
    for (const auto& [name, size] : p.options.base)
      if (name == d.name) n = size;
    bool dp = d.over_dp, tp = d.over_tp;
    for (const std::string& name : p.options.divided)
      if (name == d.name) dp = tp = true;
    const std::int64_t ranks = (dp ? mesh.dp : 1) * (tp ? mesh.tp : 1);
    bool even = false;
    for (const std::string& name : p.options.even) even = even || name == d.name;
    // In two of three drawings some ranks hold padding, and perhaps nothing else.
    const std::int64_t missing = even || trial % 3 == 0 ? 0 : numbers.word(100 + i) % ranks;
    out.known.emplace_back(d.name, std::max<std::int64_t>(1, n * ranks - missing));
  }
  return out;
}

answer solve(const problem& p, const weft::degrees& mesh, const extents& sizes) {
  answer out{};
  on_ranks(mesh, [&](weft::context& ctx) {
    // Central differences of fourth order: with steps of 1e-3 truncation (h^4 f'''''/30) and rounding (eps |f| / h) are
    // both near 1e-13 of the function's scale.
    const double h = 1e-3;
    const double value = p.at(ctx, sizes, 0);
    const double near = p.at(ctx, sizes, h) - p.at(ctx, sizes, -h),
                 far = p.at(ctx, sizes, 2 * h) - p.at(ctx, sizes, -2 * h);
    const auto [slope, magnitude] = p.slope(ctx, sizes);
    if (ctx.is_first()) out = {value, slope, magnitude, (8 * near - far) / (12 * h)};
  });
  return out;
}

}  // namespace

std::vector<std::string> disagreements(const problem& p) {
  // 1e-8: five digits of room above the differences' own error, for fifth derivatives and sums over many elements; a
  // wrong or missing addend of a gradient shows at 1e-3 or more, directions being random and dense.
  const double tolerance = p.options.tolerance > 0 ? p.options.tolerance : 1e-8;
  std::vector<std::string> out;
  const std::size_t stride = static_cast<std::size_t>(weft_test::sample_stride());
  for (std::size_t i = weft::stream_of(p.what) % stride % std::size(meshes); i < std::size(meshes); i += stride) {
    const weft::degrees& mesh = meshes[i];
    const std::string where =
        std::string(p.what) + ", dp " + std::to_string(mesh.dp) + ", tp " + std::to_string(mesh.tp) + ": ";
    try {
      const extents sizes = draw(p, mesh, i);
      const answer one = solve(p, {}, sizes), all = solve(p, mesh, sizes);
      const double scale = one.magnitude + std::abs(one.value) + 1;
      const auto near = [&](double a, double b, double allowed, const char* what) {
        if (!(std::abs(a - b) <= allowed * scale))
          out.push_back(where + what + ": " + std::to_string(a) + " and " + std::to_string(b));
      };
      near(one.slope, one.difference, tolerance, "one rank's gradient and differences");
      near(all.slope, all.difference, tolerance, "all ranks' gradient and differences");
      // Only the order of sums differs.
      near(all.value, one.value, 1e-3 * tolerance, "all ranks' value and one rank's");
      near(all.slope, one.slope, 1e-3 * tolerance, "all ranks' gradient and one rank's");
      if (!(one.magnitude > 0)) out.push_back(where + "the gradient is zero, so nothing was tested");
    } catch (const weft::error& e) {
      out.push_back(where + e.what());
    }
  }
  return out;
}

void differences_agree(const problem& p) {
  const std::vector<std::string> wrong = disagreements(p);
  for (const std::string& line : wrong) FAIL_CHECK(line);
  CHECK(wrong.empty());
}

namespace {

// x^3 summed over three numbers, with its slope times a factor, and one rank's value off by `stray`.
problem cubes(double factor, double stray) {
  const auto number = [](int i) { return 0.4 + 0.3 * i; };
  problem p{"cubes", {}, {}, {}, {}};
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
  CHECK(disagreements(cubes(1, 0)).empty());
  CHECK(!disagreements(cubes(1 + 1e-6, 0)).empty());
  CHECK(!disagreements(cubes(1, 1e-6)).empty());
  problem differs = cubes(1, 0);
  differs.slope = [inner = differs.slope](weft::context& ctx, const extents& at) {
    weft::shape one;
    one.push_back(1);
    const weft::array x = ctx.make(weft::dtype::f64, one);
    *x.as<double>() = ctx.index<weft::tp>();
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
