// Where heads lie in the parameters of a decoder's layers, by the dimensions' names. A group of heads is what layers
// have in common: a key and value head with the query heads that read it. Invariant: a layer's groups are as many as
// the fewest heads that one of its parameters has, and each parameter's heads divide among them in order.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include <weft/nn/parameters.hpp>

namespace weft {

/// The groups that stay, by layer, in ascending order: kept[layer] = {0, 2, 3}.
using kept_heads = std::vector<std::vector<std::int64_t>>;

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

/// Throws unless these can be kept of a layer's groups.
inline void check_kept(const std::vector<std::int64_t>& kept, std::int64_t layer, std::int64_t groups) {
  require(!kept.empty() || groups == 0, "layer ", layer, " is to keep no group of heads; each keeps at least 1");
  require(kept.empty() || groups > 0, "layer ", layer,
          " is to keep groups of heads, and has none: its line in what is kept is empty");
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
}  // namespace weft
