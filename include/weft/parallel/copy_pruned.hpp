// The weights that a pruned model takes over from the whole one, from store to store. Invariant: a number of the
// smaller model has the bits of the one that it was, whatever each store's sharding policy.
#pragma once

#include <bit>
#include <map>
#include <optional>
#include <string>

#include <weft/nn/prune_heads.hpp>
#include <weft/tensor/agree.hpp>

namespace weft {

namespace detail {

/// What a parameter of the smaller model is given: this rank's slice of the same one, where nothing of it went, or all
/// numbers of it.
template <class T>
struct taken_numbers {
  const T* own;                    // null: `all` has them
  const std::vector<double>& all;  // by global index
  std::int64_t count;

  std::int64_t size() const { return count; }
  template <class Through, class To>
  void read(const placed_slice& at, std::int64_t begin, std::int64_t n, To* out) const {
    for (std::int64_t i = 0; i < n; ++i) {
      double number = 0;
      if (own) {
        number = static_cast<double>(own[begin + i]);
      } else if (const std::int64_t g = at.global_index(begin + i); g >= 0) {
        number = all[static_cast<std::size_t>(g)];
      }
      const auto rounded = static_cast<Through>(static_cast<accumulate_t<Through>>(number));
      out[i] = static_cast<To>(static_cast<accumulate_t<To>>(rounded));
    }
  }
};

inline bool same_place(const placed_slice& a, const placed_slice& b) {
  bool same = a.ndim == b.ndim;
  for (int d = 0; same && d < a.ndim; ++d)
    same = a.local[d] == b.local[d] && a.global[d] == b.global[d] && a.first[d] == b.first[d];
  return same;
}

/// Of a parameter with heads the groups that stay, of any other all; from all ranks that hold parts of it to each of
/// them. `numbers`: this rank's slice.
template <class T>
std::vector<double> kept_numbers(context& ctx, const parameter_record& p, const head_blocks* heads,
                                 const std::vector<std::int64_t>* kept, const T* numbers) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(heads ? heads->groups : 1), heads ? -1 : 0);
  if (heads)
    for (std::size_t i = 0; i < kept->size(); ++i)
      place[static_cast<std::size_t>((*kept)[i])] = static_cast<std::int64_t>(i);
  const std::int64_t block = heads ? heads->block : p.global.elements(), before = std::ssize(place),
                     after = heads ? std::ssize(*kept) : 1;
  // Bits, which a sum with zeros leaves as they are.
  std::vector<std::int64_t> bits(static_cast<std::size_t>(p.global.elements() / before * after));
  p.at.runs(0, p.local.elements(), [&](std::int64_t i, std::int64_t g, std::int64_t n) {
    for (std::int64_t k = 0; g >= 0 && k < n; ++k) {
      const std::int64_t at = g + k, to = place[static_cast<std::size_t>(at / block % before)];
      if (to >= 0)
        bits[static_cast<std::size_t>((at / block / before * after + to) * block + at % block)] =
            std::bit_cast<std::int64_t>(static_cast<double>(numbers[i + k]));
    }
  });
  for (const axis_group& along : ctx.axes())
    if (along.axis != id_of<pp> && along.cuts(p.sharded, {}))
      ctx.along(along.axis)
          .comm.host()
          .all_reduce(bits.data(), bits.data(), std::ssize(bits), dtype::i64, reduction::sum,
                      ctx.label("weights of a pruned model"))
          .wait();
  std::vector<double> out(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) out[i] = std::bit_cast<double>(bits[i]);
  return out;
}

}  // namespace detail

/// Sets the weights of a pruned model's store from those of the whole model's: of parameters with heads, whole or
/// adapters', the groups that each layer keeps, all others as they are. Sharding policies and precisions may be two;
/// the layers lie on the same stages. Adapters that only the pruned model has stay as they were born. Moments aren't
/// touched. All ranks call it. Throws weft::failure on all of them, before anything is set, naming the parameter that
/// isn't there or is of another size. Memory beside the stores: one parameter at a time, its whole where heads went.
template <class From, class To>
void copy_pruned(context& ctx, From& whole, To& to, const kept_heads& kept) {
  std::map<std::string, const parameter_record*, std::less<>> wanted;
  std::map<std::int64_t, std::int64_t> groups;  // of this rank's layers
  using none = std::optional<std::vector<float>>;
  whole.load_parameters([&](const parameter_record& p) -> none {
    if (const std::int64_t layer = detail::layer_of(p.name), n = detail::groups_by(p); layer >= 0 && n > 0)
      groups[layer] = n;
    return {};
  });
  to.load_parameters([&](const parameter_record& p) -> none {
    wanted[p.name] = &p;
    return {};
  });
  const auto kept_of = [&](const parameter_record& p) -> const std::vector<std::int64_t>* {
    const auto layer = groups.find(detail::layer_of(p.name));
    if (layer == groups.end() || detail::head_blocks(p, 1).dimension < 0) return nullptr;
    return &kept.at(static_cast<std::size_t>(layer->first));
  };
  detail::on_all_or_none(ctx, [&] {
    for (const auto& [layer, n] : groups) {
      require(layer < std::ssize(kept), "heads of ", kept.size(), " layers are to be kept, and the model has a layer ",
              layer);
      detail::check_kept(kept[static_cast<std::size_t>(layer)], layer, n);
    }
    std::map<std::string_view, bool> given;
    whole.load_parameters([&](const parameter_record& p) -> none {
      const auto found = wanted.find(p.name);
      require(
          found != wanted.end(), "parameter ", p.name,
          " is one of the whole model's here and none of the pruned model's: both are of one family, and lie on the "
          "same stages");
      shape left = p.global;
      if (const auto* const of_layer = kept_of(p)) {
        const detail::head_blocks heads(p, groups.at(detail::layer_of(p.name)));
        left[heads.dimension] = left[heads.dimension] / heads.groups * std::ssize(*of_layer);
      }
      require(left == found->second->global, "parameter ", p.name, " of the pruned model has ",
              found->second->global.elements(), " elements, and ", left.elements(),
              " of the whole model's are kept: make its configuration by pruned(config, kept)");
      given[p.name] = true;
      return {};
    });
    for (const auto& [name, record] : wanted)
      require(
          record->adapter || given.contains(name), "parameter ", name,
          " is one of the pruned model's here and none of the whole model's: both are of one family, and lie on the "
          "same stages");
  });
  whole.each_parameter([&](const parameter_record& p, const auto&, const auto& weights) {
    const parameter_record& target = *wanted.at(p.name);
    const auto* const of_layer = kept_of(p);
    std::optional<detail::head_blocks> heads;
    if (of_layer) heads.emplace(p, groups.at(detail::layer_of(p.name)));
    using numbers = detail::taken_numbers<typename From::master>;
    // Where it is stored in few bits every rank reads all of it, for the scales.
    const bool as_it_is = p.global == target.global && detail::same_place(p.at, target.at) &&
                          target.stored.format == weight_format::plain;
    std::vector<double> all;
    if (!as_it_is) all = detail::kept_numbers(ctx, p, heads ? &*heads : nullptr, of_layer, weights.data());
    to.load_parameters([&](const parameter_record& other) -> std::optional<numbers> {
      if (&other != &target) return {};
      return numbers{as_it_is ? weights.data() : nullptr, all, other.global.elements()};
    });
  });
}

}  // namespace weft
