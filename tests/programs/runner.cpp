// Runs generated programs, each on one rank and on every mesh, and says of each on a line of its own: `equal`,
// `refused` (a weft::failure), or `wrong`, with what differs. On one rank gradients are held to finite differences as
// well. runner [FIRST]: the programs from number FIRST on. Ends with 1 where a program is wrong.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <weft/comm/threads.hpp>
#include <weft/core/random.hpp>
#include <weft/parallel/launch.hpp>

#include "trial.hpp"

namespace programs {

double leaf_number(int which, bool positive, std::int64_t index) {
  const philox r{7, static_cast<std::uint64_t>(which)};
  const double size = (positive ? 0.5 : 0.25) + r.uniform(2 * static_cast<std::uint64_t>(index));
  return positive || r.uniform(2 * static_cast<std::uint64_t>(index) + 1) < 0.5f ? size : -size;
}
double leaf_direction(int which, std::int64_t index) {
  return 2.0 * philox{8, static_cast<std::uint64_t>(which)}.uniform(static_cast<std::uint64_t>(index)) - 1;
}

void results::add(context& ctx, const std::string& name, const placed_slice& at, const holds (&kinds)[2],
                  const std::vector<double>& share) {
  const int index[] = {ctx.index<dp>().here(), ctx.index<tp>().here()};
  std::vector<int> part;
  for (int a = 0; a < 2; ++a) part.push_back(kinds[a] == holds::partial || kinds[a] == holds::shard ? index[a] : -1);
  std::int64_t whole = 1;
  for (int d = 0; d < at.ndim; ++d) whole *= at.global[d];
  std::vector<double> numbers;
  const std::lock_guard lock(one_at_a_time_);
  entry& e = all[name];
  e.numbers.resize(static_cast<std::size_t>(whole));
  const auto begun = e.of.try_emplace(part);
  const bool first = begun.second;
  detail::each_element(at, [&](std::int64_t local, std::int64_t global) {
    if (global < 0) return;
    const double x = share[static_cast<std::size_t>(local)];
    numbers.push_back(x);
    if (first) e.numbers[static_cast<std::size_t>(global)] += x;
  });
  std::vector<double>& before = begun.first->second;
  if (first) before = numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!(before[i] == numbers[i]) && !std::isnan(numbers[i]))
      throw std::runtime_error(name + " differs between ranks that should hold the same");
}

double results::objective() const {
  double out = 0;
  for (const auto& [name, seed] : seeds) out += seed * all.at(name).numbers.at(0);
  return out;
}

namespace {

constexpr degrees meshes[] = {{.dp = 2, .tp = 1}, {.dp = 1, .tp = 2}, {.dp = 2, .tp = 2},
                              {.dp = 1, .tp = 4}, {.dp = 3, .tp = 2}, {.dp = 2, .tp = 3}};

void run(const program& p, const degrees& on, double step, results& out) {
  launch<strategy<mesh<dp, tp>, threads>>(on,
                                          [&](context& ctx) {
                                            trial t(ctx, out, step);
                                            p.run(t);
                                          },
                                          {.check = true});
}

struct finding {
  std::string is, what;
};

double largest(const results& r) {
  double most = 0;
  for (const auto& [name, e] : r.all)
    for (const double x : e.numbers) most = std::isfinite(x) ? std::max(most, std::abs(x)) : HUGE_VAL;
  return most;
}

std::string difference(const results& one, const results& many) {
  if (one.all.size() != many.all.size()) return "other gradients or losses than on one rank";
  const double allowed = one.tolerance * (1 + largest(one));
  for (const auto& [name, e] : one.all) {
    const auto found = many.all.find(name);
    if (found == many.all.end() || found->second.numbers.size() != e.numbers.size()) return name + " is not the same";
    for (std::size_t i = 0; i < e.numbers.size(); ++i)
      if (!(std::abs(e.numbers[i] - found->second.numbers[i]) <= allowed))
        return name + " [" + std::to_string(i) + "]: " + std::to_string(found->second.numbers[i]) + ", one rank has " +
               std::to_string(e.numbers[i]);
  }
  return "";
}

// One rank's gradients against central differences of fourth order; where two steps disagree a kink lies near.
std::string slope_difference(const program& p, const results& one) {
  if (one.tolerance > 1e-8) return "";
  double slope = 0, size = 1 + std::abs(one.objective());
  for (const auto& [name, which] : one.leaves) {
    const auto& numbers = one.all.at(name).numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double term = numbers[i] * leaf_direction(which, static_cast<std::int64_t>(i));
      slope += term, size += std::abs(term);
    }
  }
  const auto at = [&](double step) {
    results r;
    run(p, {}, step, r);
    return r.objective();
  };
  const auto estimate = [&](double h) { return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h); };
  const double wide = estimate(1e-3), narrow = estimate(2.5e-4);
  if (!(std::abs(wide - narrow) <= 1e-7 * size)) return "";
  if (std::abs(slope - narrow) <= 1e-6 * size) return "";
  return "one rank's gradients have slope " + std::to_string(slope) + ", differences " + std::to_string(narrow);
}

std::string text(const degrees& d) { return "dp " + std::to_string(d.dp) + ", tp " + std::to_string(d.tp); }

finding judge(const program& p) {
  degrees on;
  try {
    results one;
    run(p, on, 0, one);
    if (!std::isfinite(largest(one))) return {"wrong", "not finite on one rank"};
    if (one.leaves.empty()) return {"wrong", "no leaf has a gradient"};
    if (const std::string what = slope_difference(p, one); !what.empty()) return {"wrong", what};
    for (const degrees& mesh : meshes) {
      on = mesh;
      results many;
      run(p, mesh, 0, many);
      if (const std::string what = difference(one, many); !what.empty()) return {"wrong", text(mesh) + ": " + what};
    }
    return {"equal", ""};
  } catch (const weft::failure& e) {
    return {"refused", text(on) + ": " + e.what()};
  } catch (const std::exception& e) {
    return {"wrong", text(on) + ": " + e.what()};
  }
}

}  // namespace
}  // namespace programs

int main(int count, char** arguments) {
  const int first = count > 1 ? std::atoi(arguments[1]) : 0;
  bool wrong = false;
  for (const programs::program& p : programs::all_programs) {
    if (p.number < first) continue;
    std::printf("%d ", p.number);  // before it runs: who doesn't come back is named
    std::fflush(stdout);
    const programs::finding found = programs::judge(p);
    wrong = wrong || found.is == "wrong";
    std::printf("%s %s\n", found.is.c_str(), found.what.c_str());
    std::fflush(stdout);
  }
  return wrong ? 1 : 0;
}
