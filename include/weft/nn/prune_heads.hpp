// Which groups of heads a decoder's layers keep, by a number for each, and where groups lie in its parameters. What is
// pruned is a group: a key and value head with the query heads that read it, one head where each has its own. A layer
// without heads has no group.
// Invariant: what is kept is a function of the numbers and the plan, so ranks with the same numbers agree.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include <weft/core/finite.hpp>
#include <weft/nn/parameters.hpp>

namespace weft {

/// How important each group of heads is, by layer: scores[layer][group].
using head_scores = std::vector<std::vector<double>>;
/// The groups that stay, by layer, in ascending order: kept[layer] = {0, 2, 3}.
using kept_heads = std::vector<std::vector<std::int64_t>>;

/// How many groups go. `fraction`: of all layers' groups, rounded to a whole number; or `count` of them.
struct prune_plan {
  double fraction = 0;
  std::int64_t count = 0;
  std::int64_t multiple_of = 1;    // a layer keeps a multiple of this, at least once: tp's ranks, for a model that tp
                                   // shards; fewer go where it doesn't divide what was asked for
  bool alike = false;              // every layer loses as many; else the least important of all layers go
  bool relative_to_layer = false;  // scores are divided by the L2 norm of their layer's first
};

namespace detail {

/// The layer that a parameter belongs to by its name, "layers.3.out": 3; -1 where it says none.
inline std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view begin = "layers.";
  std::int64_t layer = -1;
  if (name.starts_with(begin)) std::from_chars(name.data() + begin.size(), name.data() + name.size(), layer);
  return layer;
}

/// Where groups of heads lie in a parameter: along one dimension, a block of `block` neighbours for each group.
struct head_blocks {
  int dimension = -1;  // none: it has no heads
  std::int64_t groups = 1, block = 1;

  /// Of a parameter of a layer with so many groups. Throws where its heads don't divide among them.
  head_blocks(const parameter_record& p, std::int64_t in_layer) : groups(in_layer) {
    for (const std::string_view name : {heads::name, kv_heads::name})  // where it has both, heads count within a group
      for (std::size_t d = 0; d < p.dimensions.size(); ++d)
        if (p.dimensions[d].name == name) dimension = static_cast<int>(d);
    if (dimension < 0) return;
    for (int d = dimension + 1; d < p.global.ndim; ++d) block *= p.global[d];
    const std::int64_t n = p.global[dimension];
    require(groups >= 1 && n % groups == 0, "parameter ", p.name, " has ", n, " heads, and its layer ", groups,
            " groups of heads, the fewest heads that one of its parameters has, which don't divide them");
    block *= n / groups;
  }

  /// f(i, g, n, group) for each run of n neighbours, elements i ... of a rank's slice and g ... of the whole, that
  /// belong to one group. Padding is in none.
  template <class F>
  void each_run(const parameter_record& p, F&& f) const {
    p.at.runs(0, p.local.elements(), [&](std::int64_t i, std::int64_t g, std::int64_t n) {
      for (std::int64_t count = 0; g >= 0 && n > 0; i += count, g += count, n -= count) {
        count = std::min(n, block - g % block);
        f(i, g, count, g / block % groups);
      }
    });
  }
};

/// How many heads a parameter has; 0: none. The fewest of a layer's parameters are its groups: those of keys and
/// values, where they have fewer than queries.
inline std::int64_t heads_in(const parameter_record& p) {
  const head_blocks heads(p, 1);
  return heads.dimension < 0 ? 0 : p.global[heads.dimension];
}

/// The same of each layer, by the parameters that this rank has: number i is layer i's; 0: it has none with heads.
template <class Store>
std::vector<std::int64_t> groups_here(Store& store) {
  std::vector<std::int64_t> groups;
  store.load_parameters([&](const parameter_record& p) -> std::optional<std::vector<float>> {
    const std::int64_t layer = layer_of(p.name), n = heads_in(p);
    if (layer >= std::ssize(groups)) groups.resize(static_cast<std::size_t>(layer) + 1);
    if (layer < 0 || n == 0) return {};
    std::int64_t& fewest = groups[static_cast<std::size_t>(layer)];
    fewest = fewest == 0 ? n : std::min(fewest, n);
    return {};
  });
  return groups;
}

/// The same of the layers of all ranks. All ranks call it.
inline std::vector<std::int64_t> groups_of_all(context& ctx, std::vector<std::int64_t> groups) {
  any_communicator host = ctx.world.host();
  auto layers = std::ssize(groups);
  host.all_reduce(&layers, &layers, 1, dtype::i64, reduction::max, ctx.label("layers")).wait();
  groups.resize(static_cast<std::size_t>(layers));
  if (layers > 0)
    host.all_reduce(groups.data(), groups.data(), layers, dtype::i64, reduction::max, ctx.label("heads by layer"))
        .wait();
  return groups;
}

/// How many groups are to go, before multiple_of. Throws where the plan or the scores have no meaning.
inline std::int64_t asked_to_go(const head_scores& scores, const prune_plan& plan) {
  require(plan.multiple_of >= 1, "multiple_of is ", plan.multiple_of, "; a layer keeps a multiple of at least 1");
  require(is_finite(plan.fraction) && plan.fraction >= 0 && plan.fraction < 1,
          "the fraction of heads to prune is from 0 to below 1, not ", plan.fraction);
  require((plan.fraction > 0) != (plan.count > 0) && plan.count >= 0,
          "prune_heads takes a fraction or a count of groups above 0, one of them, and not fraction = ", plan.fraction,
          " with count = ", plan.count);
  std::int64_t all = 0;
  for (std::size_t layer = 0; layer < scores.size(); ++layer) {
    const auto n = std::ssize(scores[layer]);
    require(n % plan.multiple_of == 0, "layer ", layer, " has ", n,
            " groups of heads, which isn't a multiple of multiple_of = ", plan.multiple_of);
    for (std::size_t group = 0; group < scores[layer].size(); ++group)
      require(is_finite(scores[layer][group]), "the score of layer ", layer, "'s group ", group, " is ",
              scores[layer][group], "; scores are finite numbers");
    all += n;
  }
  require(all > 0, "prune_heads is given no layer's scores");
  return plan.count > 0 ? plan.count : std::llround(plan.fraction * static_cast<double>(all));
}

}  // namespace detail

/// The groups that stay when the least important go, of all layers' together or, `alike`, of each layer's. Of equal
/// scores the first in the model goes. Each layer keeps multiple_of at least, and with multiple_of above 1 groups go by
/// so many of a layer, judged by their mean. A layer without scores, as one without attention, has nothing to lose and
/// keeps nothing. Throws weft::failure where a score isn't finite, where more are to go than
/// can, and where none goes.
inline kept_heads prune_heads(const head_scores& scores, const prune_plan& plan) {
  const std::int64_t asked = detail::asked_to_go(scores, plan), at_once = plan.multiple_of;
  std::int64_t layers = 0;  // that have heads
  struct candidate {        // the groups `begin` ... of a layer's, from its least important on
    double score;
    std::size_t layer, begin;
  };
  std::vector<candidate> candidates;
  std::vector<std::vector<std::int64_t>> order(scores.size());
  std::int64_t least = -1;  // that a layer can lose
  for (std::size_t layer = 0; layer < scores.size(); ++layer) {
    const std::vector<double>& all = scores[layer];
    if (all.empty()) continue;
    ++layers;
    double squares = 0;
    for (const double s : all) squares += s * s;
    const double norm = plan.relative_to_layer && squares > 0 ? std::sqrt(squares) : 1;
    for (std::int64_t i = 0; i < std::ssize(all); ++i) order[layer].push_back(i);
    std::stable_sort(order[layer].begin(), order[layer].end(), [&](std::int64_t a, std::int64_t b) {
      return all[static_cast<std::size_t>(a)] < all[static_cast<std::size_t>(b)];
    });
    const auto step = static_cast<std::size_t>(at_once);
    for (std::size_t begin = 0; begin + step < all.size(); begin += step) {
      double sum = 0;
      for (std::size_t i = begin; i < begin + step; ++i) sum += all[static_cast<std::size_t>(order[layer][i])];
      candidates.push_back({sum / norm / static_cast<double>(at_once), layer, begin});
    }
    const std::int64_t most = std::ssize(all) - at_once;
    least = least < 0 ? most : std::min(least, most);
  }
  const std::int64_t can = plan.alike ? least * layers : std::ssize(candidates) * at_once,
                     by = plan.alike ? at_once * layers : at_once;
  require(asked <= can, asked, " groups of heads are to go, and at most ", can, " can, since each of the ", layers,
          " layers keeps at least ", at_once, plan.alike ? " and loses as many as every other" : "");
  require(asked >= by, asked, " groups of heads are to go, and they go by ", by,
          " here (multiple_of, times the layers where they are alike); choose at least as many");
  // Within a layer scores ascend, and a stable sort keeps that order.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const candidate& a, const candidate& b) { return a.score < b.score; });
  std::vector<std::size_t> gone(scores.size(), plan.alike ? static_cast<std::size_t>(asked / by * at_once) : 0);
  for (std::int64_t i = 0; !plan.alike && i < asked / by; ++i)
    gone[candidates[static_cast<std::size_t>(i)].layer] += static_cast<std::size_t>(at_once);
  kept_heads kept(scores.size());
  for (std::size_t layer = 0; layer < scores.size(); ++layer) {
    if (order[layer].empty()) continue;
    kept[layer].assign(order[layer].begin() + static_cast<std::ptrdiff_t>(gone[layer]), order[layer].end());
    std::sort(kept[layer].begin(), kept[layer].end());
  }
  return kept;
}

namespace detail {
/// Throws unless these can be kept of a layer's groups.
inline void check_kept(const std::vector<std::int64_t>& kept, std::int64_t layer, std::int64_t groups) {
  require(!kept.empty() || groups == 0, "layer ", layer, " is to keep no group of heads; each keeps at least 1");
  require(kept.empty() || groups > 0, "layer ", layer, " is to keep ", kept.size(),
          " groups of heads, and has none: its line in what is kept is empty");
  for (std::size_t i = 0; i < kept.size(); ++i)
    require(kept[i] >= 0 && kept[i] < groups && (i == 0 || kept[i - 1] < kept[i]), "layer ", layer,
            " is to keep group ", kept[i], i > 0 ? " behind others" : "", "; its groups are 0 to ", groups - 1,
            ", each said once and in ascending order");
}
/// Of a whole model, with so many in each layer.
inline void check_kept(const kept_heads& kept, const std::vector<std::int64_t>& groups) {
  require(kept.size() == groups.size(), "heads of ", kept.size(), " layers are to be kept, and the model has ",
          groups.size());
  for (std::size_t layer = 0; layer < kept.size(); ++layer)
    check_kept(kept[layer], static_cast<std::int64_t>(layer), groups[layer]);
}
}  // namespace detail

/// The configuration of a model that keeps these groups of heads: a llama_config or gpt2_config with layer_groups, or,
/// where a Llama's layers all keep as many, an ordinary one with fewer heads. One of your own says how many groups its
/// layers have, and makes one with other numbers, by the two members that these have. Throws weft::failure where they
/// aren't groups of this model.
template <class Config>
Config pruned(const Config& whole, const kept_heads& kept) {
  constexpr bool has_groups = requires(const std::vector<std::int64_t>& groups) {
    { whole.groups_by_layer() } -> std::convertible_to<std::vector<std::int64_t>>;
    { whole.with_groups(groups) } -> std::convertible_to<Config>;
  };
  static_assert(has_groups,
                "weft: pruned(config, kept) asks a configuration of one's own for groups_by_layer() and "
                "with_groups(groups), as llama_config has them; or make the smaller model's by kept[layer].size()");
  if constexpr (has_groups) {
    detail::check_kept(kept, whole.groups_by_layer());
    std::vector<std::int64_t> groups;
    for (const auto& of_layer : kept) groups.push_back(std::ssize(of_layer));
    return whole.with_groups(groups);
  } else {
    return whole;
  }
}

}  // namespace weft
