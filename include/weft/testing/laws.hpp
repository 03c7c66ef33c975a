// Laws for operators of a user's own: value and gradients agree with one rank's and with finite differences on every
// mesh, in any placement, with uneven extents and NaN in the padding. Needs no test framework.
// Invariant: a law that tested nothing (a gradient of zero everywhere) is reported as a disagreement.
#pragma once

#include <cstdio>

#include <weft/comm/threads.hpp>
#include <weft/core/random.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/testing/gradients.hpp>

namespace weft::testing {

/// Whose axes, communicator and backend a law uses where it isn't told: ranks are threads along dp and tp.
using usual_strategy = strategy<mesh<dp, tp>>;
template <class S>
concept law_strategy = is_mesh<typename S::mesh>;

/// Runs `body` on every rank of such a mesh, recording.
template <law_strategy S = usual_strategy>
void on_ranks(const degrees& mesh, const std::function<void(context&)>& body) {
  launch<S>(mesh, body);
}

/// The meshes that a law is tried on, and what starts their ranks.
struct mesh_trials {
  std::vector<degrees> meshes;
  std::function<void(const degrees&, const std::function<void(context&)>&)> run;
};
/// Those of a strategy: its axes, its communicator, its backend.
template <law_strategy S = usual_strategy>
mesh_trials trials_of() {
  using mesh = typename S::mesh;
  std::vector<axis_id> axes;
  for (int i = 0; i < mesh::ndim; ++i) {
    require(mesh::fixed[i] == 0, "a law tries an axis with several numbers of ranks, and axis ", mesh::ids[i]->name,
            " of its mesh has a degree of its own: name the axis alone, mesh<", mesh::ids[i]->name, ">");
    axes.push_back(mesh::ids[i]);
  }
  return {detail::meshes_along(axes), on_ranks<S>};
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

inline bool names(const std::vector<dimension_key>& list, dimension_key key) {
  for (const dimension_key& d : list)
    if (d == key) return true;
  return false;
}

inline extents draw(const char* what, const std::vector<drawn_dimension>& dims, const options& o, const degrees& mesh,
                    std::uint64_t trial) {
  const philox numbers{trial, stream_of(what)};
  extents out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const drawn_dimension& d = dims[i];
    std::int64_t n = 1 + numbers.word(i) % 4, ranks = 1;
    for (const auto& [key, size] : o.base)
      if (key == d.key) n = size;
    for (const axis_id axis : d.over) ranks *= mesh.of(axis);
    if (names(o.divided, d.key)) ranks = mesh.product();
    // In two of three drawings some ranks hold padding, and perhaps nothing else.
    const bool whole = names(o.even, d.key) || trial % 3 == 0;
    const std::int64_t missing = whole ? 0 : numbers.word(100 + i) % ranks;
    out.known.emplace_back(d.key, std::max<std::int64_t>(1, n * ranks - missing));
  }
  return out;
}

/// "what, dp 2, tp 3: " for a mesh.
inline std::string where(const char* what, const degrees& mesh) {
  std::string text = what;
  for (const axis_id axis : {id_of<dp>, id_of<tp>, id_of<pp>, id_of<cp>, id_of<ep>})
    if (mesh.of(axis) > 1) text += ", " + std::string(axis->name) + " " + std::to_string(mesh.of(axis));
  for (const own_degrees::entry& e : mesh.own.at)
    if (e.axis && e.degree > 1) text += ", " + std::string(e.axis->name) + " " + std::to_string(e.degree);
  return text + ": ";
}

/// Whether Xs are placed along the mesh's axes alone.
template <class Mesh, class... Xs>
inline constexpr bool placed_within = []<class... As>(tag_list<As...>) {
  return (contains<typename Mesh::axes, As> && ...);
}(axes_of_all<layout_of<Xs>...>{});

inline answer solve(const problem& p, const mesh_trials& on, const degrees& mesh, const extents& sizes) {
  answer out{};
  on.run(mesh, [&](context& ctx) {
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
inline std::vector<std::string> disagreements(const problem& p, const mesh_trials& on = trials_of<>()) {
  // 1e-8: five digits of room above the differences' own error, for fifth derivatives and sums over many elements; a
  // wrong or missing addend of a gradient shows at 1e-3 or more, directions being random and dense.
  const double tolerance = p.options.tolerance > 0 ? p.options.tolerance : 1e-8;
  std::vector<std::string> out;
  const std::size_t stride = static_cast<std::size_t>(p.options.every);
  for (std::size_t i = stream_of(p.what) % stride % on.meshes.size(); i < on.meshes.size(); i += stride) {
    const degrees& mesh = on.meshes[i];
    const std::string where = detail::where(p.what, mesh);
    try {
      const extents sizes = detail::draw(p.what, p.dims, p.options, mesh, i);
      const detail::answer one = detail::solve(p, on, {}, sizes), all = detail::solve(p, on, mesh, sizes);
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
      if (!(one.magnitude > 0))
        out.push_back(
            where +
            "the gradient is zero, so nothing was tested: a function that is constant where a dimension has one "
            "element needs more of them, options{.base = {{hidden{}, 5}}}");
    } catch (const failure& e) {
      out.push_back(where + e.what());
    }
  }
  return out;
}

namespace detail {
template <class S, class... Xs, class F>
void gradients_agree(const char* what, F f, const options& o) {
  static_assert(placed_within<typename S::mesh, Xs...>,
                "weft: a law's tensor is placed along an axis that the law's mesh lacks, where it would have one rank: "
                "name the mesh first, check_gradients<strategy<mesh<rows>>, tensor<...>>");
  constexpr bool in_doubles =
      ((!floating<typename Xs::element_type> || std::same_as<typename Xs::element_type, double>)&&...);
  static_assert(
      in_doubles,
      "weft: a law compares gradients with differences, for which only double has digits enough: give it tensors of "
      "double; other types have the same formula");
  if constexpr (in_doubles) {
    std::string wrong;
    for (const std::string& line : disagreements(gradient_problem<Xs...>(what, f, o), trials_of<S>()))
      wrong += line + "\n";
    require(wrong.empty(), wrong);
  }
}
}  // namespace detail

/// Throws weft::failure with what doesn't agree, a line each, unless f(x...) is the same function on every mesh, and
/// its gradients are right. Xs: the types of x, of doubles, in the placements to be tried, over the axes dp and tp. f
/// is called on every rank, many times, with inputs of 0.25 to 1.25 in size, and has no kink within 0.004 of them,
/// where differences are not the slope: choose its numbers so. Cost: milliseconds to seconds, on up to 8 threads.
///
///   testing::check_gradients<tensor<double, dims<batch, hidden>, shard<batch, dp>>>(
///       "huber", [](const auto& x) { return elementwise(huber{0.5}, x); });
template <any_tensor... Xs, class F>
void check_gradients(const char* what, F f, options o = {}) {
  detail::gradients_agree<usual_strategy, Xs...>(what, f, o);
}

/// The same along the axes, with the communicator and on the backend of a strategy: `strategy<mesh<rows, columns>>`
/// tries axes of one's own, of which the mesh names one or more, without a degree.
template <law_strategy S, any_tensor... Xs, class F>
void check_gradients(const char* what, F f, options o = {}) {
  detail::gradients_agree<S, Xs...>(what, f, o);
}

}  // namespace weft::testing
