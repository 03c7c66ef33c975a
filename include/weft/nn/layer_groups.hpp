// How many groups of heads each layer of a decoder has, where layers differ: a group is a key and value head with the
// query heads that read it, which is what pruning takes away. Invariant: empty, all layers are as the configuration's
// heads; else there is a number for each layer.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include <weft/tensor/consistency.hpp>

namespace weft {

/// Groups of heads by layer: `{.layers = 3, .heads = 8, .kv_heads = 4, .layer_groups = {4, 2, 3}}`. A list that a
/// constexpr configuration can have.
class layer_groups {
 public:
  constexpr layer_groups() = default;
  constexpr layer_groups(std::initializer_list<std::int64_t> groups) : layer_groups(groups.begin(), groups.size()) {}
  layer_groups(const std::vector<std::int64_t>& groups) : layer_groups(groups.data(), groups.size()) {}
  constexpr layer_groups(const layer_groups& other) : layer_groups(other.begin(), other.size()) {}
  constexpr layer_groups(layer_groups&& other) noexcept
      : groups_(std::exchange(other.groups_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  constexpr layer_groups& operator=(layer_groups other) noexcept {
    std::swap(groups_, other.groups_), std::swap(size_, other.size_);
    return *this;
  }
  constexpr ~layer_groups() { delete[] groups_; }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const std::int64_t* begin() const { return groups_; }
  constexpr const std::int64_t* end() const { return groups_ + size_; }
  constexpr std::int64_t operator[](std::int64_t layer) const { return groups_[layer]; }
  friend constexpr bool operator==(const layer_groups& a, const layer_groups& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  constexpr layer_groups(const std::int64_t* groups, std::size_t size)
      : groups_(size > 0 ? new std::int64_t[size] : nullptr), size_(size) {
    std::copy(groups, groups + size, groups_);
  }

  std::int64_t* groups_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

/// Throws where a model of so many layers, with `most` groups of heads in each that isn't pruned, can't have these.
/// shared: 0, or where ranks share key and value heads the query heads of a group, which tp then divides in a layer.
WEFT_LINKED void check_layer_groups(const layer_groups& groups, std::int64_t layers, std::int64_t most,
                                    int tensor_parallel, std::int64_t shared = 0) {
  if (groups.empty()) return;
  const auto said = static_cast<std::int64_t>(groups.size());
  require(said == layers, "layer_groups has ", said, " numbers, and the model has ", layers,
          " layers; give one for each layer, or none");
  for (std::int64_t i = 0; i < layers; ++i) {
    require(groups[i] >= 1 && groups[i] <= most, "layer ", i, " is to have ", groups[i],
            " groups of heads by layer_groups; each layer has at least 1, and at most those of the whole model, ",
            most);
    require(shared == 0 || groups[i] * shared % tensor_parallel == 0, "layer ", i, "'s query heads, ",
            groups[i] * shared, " in ", groups[i], " groups, don't divide among tp = ", tensor_parallel,
            " ranks; choose tp so that they do, or prune other numbers of groups");
    require(shared > 0 || groups[i] % tensor_parallel == 0, "layer ", i, "'s groups of heads, ", groups[i],
            ", don't divide among tp = ", tensor_parallel,
            " ranks; choose tp so that they do, or prune with .multiple_of = tp");
  }
}

/// Of each layer, `otherwise` where nothing is said.
WEFT_LINKED std::vector<std::int64_t> groups_of_layers(const layer_groups& groups, std::int64_t layers,
                                                       std::int64_t otherwise) {
  if (groups.empty()) return std::vector<std::int64_t>(static_cast<std::size_t>(layers), otherwise);
  return {groups.begin(), groups.end()};
}

/// They are the same on all ranks, of which each has as many numbers. ctx.check is not null.
[[gnu::cold]] WEFT_LINKED void compare_layer_groups(context& ctx, const char* model, const layer_groups& groups) {
  if (ctx.size() == 1 || groups.empty()) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < groups.size(); ++i) names.push_back("layer_groups[" + std::to_string(i) + "]");
  std::vector<named_number> numbers;
  for (std::size_t i = 0; i < groups.size(); ++i)
    numbers.push_back({names[i].c_str(), static_cast<double>(groups[static_cast<std::int64_t>(i)])});
  ctx.check->compare(ctx.world, "the world", {model, "configuration"}, numbers);
}

}  // namespace detail
}  // namespace weft
