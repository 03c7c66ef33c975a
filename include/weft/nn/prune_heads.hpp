// Which groups of heads a decoder's layers keep, by a number for each. What is pruned is a group: a key and value head
// with the query heads that read it, one head where each has its own. A layer without heads has no group.
// Invariant: what is kept is a function of the numbers and the plan, so ranks with the same numbers agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

#include <weft/core/finite.hpp>
#include <weft/nn/head_blocks.hpp>

namespace weft {

/// How important each group of heads is, by layer: scores[layer][group].
using head_scores = std::vector<std::vector<double>>;

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
    double largest = 0, squares = 0;  // of the others over the largest, which don't overflow
    for (const double s : all) largest = std::max(largest, std::abs(s));
    if (!plan.relative_to_layer || largest == 0) largest = 1;
    for (const double s : all) squares += s / largest * (s / largest);
    const double norm = plan.relative_to_layer && squares > 0 ? std::sqrt(squares) : 1;
    for (std::int64_t i = 0; i < std::ssize(all); ++i) order[layer].push_back(i);
    std::stable_sort(order[layer].begin(), order[layer].end(), [&](std::int64_t a, std::int64_t b) {
      return all[static_cast<std::size_t>(a)] < all[static_cast<std::size_t>(b)];
    });
    const auto step = static_cast<std::size_t>(at_once);
    for (std::size_t begin = 0; begin + step < all.size(); begin += step) {
      double sum = 0;
      for (std::size_t i = begin; i < begin + step; ++i)
        sum += all[static_cast<std::size_t>(order[layer][i])] / largest / static_cast<double>(at_once);
      candidates.push_back({sum / norm, layer, begin});
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
