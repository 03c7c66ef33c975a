// Laws for operators of a user's own: value and gradients agree with one rank's and with finite differences on every
// mesh, in any placement, with uneven extents and NaN in the padding. Needs no test framework.
// Invariant: a law that tested nothing (a gradient of zero everywhere) is reported as a disagreement.
#pragma once

#include <cstdio>

#include <weft/comm/threads.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/tensor/random.hpp>
#include <weft/testing/gradients.hpp>

namespace weft::testing {

/// Runs `body` on every rank of a dp x tp mesh of threads, recording.
inline void on_ranks(const degrees& mesh, const std::function<void(context&)>& body) {
  launch<strategy<weft::mesh<dp, tp>, threads>>(mesh, body);
}

namespace detail {

/// Enough of a number to see where two differ.
inline std::string digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", x);
  return text;
}

struct answer {
  double value, slope, magnitude, difference;
};

inline extents draw(const problem& p, const degrees& mesh, std::uint64_t trial) {
  const philox numbers{trial, stream_of(p.what)};
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

inline answer solve(const problem& p, const degrees& mesh, const extents& sizes) {
  answer out{};
  on_ranks(mesh, [&](context& ctx) {
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

}  // namespace detail

/// Runs the problem on each mesh with shapes drawn anew. What doesn't agree, a line each: value and slope with one
/// rank's, the slope with finite differences, ranks that hold copies with each other.
inline std::vector<std::string> disagreements(const problem& p) {
  // 1e-8: five digits of room above the differences' own error, for fifth derivatives and sums over many elements; a
  // wrong or missing addend of a gradient shows at 1e-3 or more, directions being random and dense.
  const double tolerance = p.options.tolerance > 0 ? p.options.tolerance : 1e-8;
  std::vector<std::string> out;
  const std::size_t stride = static_cast<std::size_t>(p.options.every);
  for (std::size_t i = stream_of(p.what) % stride % std::size(meshes); i < std::size(meshes); i += stride) {
    const degrees& mesh = meshes[i];
    const std::string where =
        std::string(p.what) + ", dp " + std::to_string(mesh.dp) + ", tp " + std::to_string(mesh.tp) + ": ";
    try {
      const extents sizes = detail::draw(p, mesh, i);
      const detail::answer one = detail::solve(p, {}, sizes), all = detail::solve(p, mesh, sizes);
      const double scale = one.magnitude + std::abs(one.value) + 1;
      const auto near = [&](double a, double b, double allowed, const char* what) {
        if (!(std::abs(a - b) <= allowed * scale))
          out.push_back(where + what + ": " + detail::digits(a) + " and " + detail::digits(b));
      };
      near(one.slope, one.difference, tolerance, "one rank's gradient and differences");
      near(all.slope, all.difference, tolerance, "all ranks' gradient and differences");
      // Only the order of sums differs.
      near(all.value, one.value, 1e-3 * tolerance, "all ranks' value and one rank's");
      near(all.slope, one.slope, 1e-3 * tolerance, "all ranks' gradient and one rank's");
      if (!(one.magnitude > 0)) out.push_back(where + "the gradient is zero, so nothing was tested");
    } catch (const failure& e) {
      out.push_back(where + e.what());
    }
  }
  return out;
}

/// Throws weft::failure with what doesn't agree, a line each, unless f(x...) is the same function on every mesh, and
/// its gradients are right. Xs: the types of x, of doubles, in the placements to be tried, over the axes dp and tp. f
/// is called on every rank, many times, with inputs of 0.25 to 1.25 in size, and has no kink within 0.004 of them,
/// where differences are not the slope: choose its numbers so. Cost: milliseconds to seconds, on up to 8 threads.
///
///   testing::check_gradients<tensor<double, dims<batch, hidden>, shard<batch, dp>>>(
///       "huber", [](const auto& x) { return elementwise(huber{0.5}, x); });
template <any_tensor... Xs, class F>
void check_gradients(const char* what, F f, options o = {}) {
  std::string wrong;
  for (const std::string& line : disagreements(gradient_problem<Xs...>(what, f, o))) wrong += line + "\n";
  require(wrong.empty(), wrong);
}

}  // namespace weft::testing
