// The weights that a pruned model takes over from the whole one, from store to store. Invariant: a number of the
// smaller model has the bits of the one that it was, whatever each store's sharding policy.
#pragma once

#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <weft/nn/prune_heads.hpp>
#include <weft/tensor/agree.hpp>

namespace weft {

namespace detail {

/// What a parameter of the smaller model is given: this rank's slice of the same one, where nothing of it went, or all
/// numbers of it.
template <class T>
struct taken_numbers {
  const T* own;                          // null: `all` has them
  const std::vector<std::int64_t>& all;  // by global index, the bits of doubles
  std::int64_t count;

  std::int64_t size() const { return count; }
  template <class Through, class To>
  void read(const placed_slice& at, std::int64_t begin, std::int64_t n, To* out) const {
    for (std::int64_t i = 0; i < n; ++i) {
      double number = 0;
      if (own) {
        number = static_cast<double>(own[begin + i]);
      } else if (const std::int64_t g = at.global_index(begin + i); g >= 0) {
        number = std::bit_cast<double>(all[static_cast<std::size_t>(g)]);
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

/// What a layer keeps of a whole model's parameter: null and empty where it has no heads, and all of it stays.
struct taken_heads {
  const std::vector<std::int64_t>* kept = nullptr;
  std::optional<head_blocks> blocks;

  taken_heads(const parameter_record& p, const std::vector<std::int64_t>& groups, const kept_heads& of_all) {
    const std::int64_t layer = layer_of(p.name);
    if (layer < 0 || heads_in(p) == 0) return;
    kept = &of_all[static_cast<std::size_t>(layer)];
    blocks.emplace(p, groups[static_cast<std::size_t>(layer)]);
  }
  shape left_of(shape global) const {
    if (kept) global[blocks->dimension] = global[blocks->dimension] / blocks->groups * std::ssize(*kept);
    return global;
  }
};

/// Throws unless each of this rank's parameters of the whole model is one of the pruned model's, of the size that is
/// left of it, and the other way round but for adapters.
inline void check_taken(const std::vector<const parameter_record*>& given,
                        const std::map<std::string, const parameter_record*, std::less<>>& wanted,
                        const std::vector<std::int64_t>& groups, const kept_heads& kept) {
  constexpr const char* alike =
      ": both are of one family and one projections policy, fused_qkv<> say, and lie on the same stages";
  check_kept(kept, groups);
  std::set<std::string_view> names;
  for (const parameter_record* const p : given) {
    const auto found = wanted.find(p->name);
    require(found != wanted.end() || !p->adapter, "parameter ", p->name,
            " is an adapter of the whole model, and the pruned model has none: give it the same projections policy, or "
            "merge adapters first (save_merged)");
    require(found != wanted.end(), "parameter ", p->name,
            " is one of the whole model's here and none of the pruned model's", alike);
    const shape left = taken_heads(*p, groups, kept).left_of(p->global);
    require(left == found->second->global, "parameter ", p->name, " of the pruned model has ",
            found->second->global.elements(), " elements, and ", left.elements(),
            " of the whole model's are kept: make its configuration by pruned(config, kept)");
    names.insert(p->name);
  }
  for (const auto& [name, record] : wanted)
    require(record->adapter || names.contains(name), "parameter ", name,
            " is one of the pruned model's here and none of the whole model's", alike);
}

/// Of a parameter with heads the groups that stay, of any other all; from all ranks that hold parts of it to each of
/// them, as the bits of doubles. `numbers`: this rank's slice.
template <class T>
std::vector<std::int64_t> kept_numbers(context& ctx, const parameter_record& p, const taken_heads& heads,
                                       const T* numbers) {
  const bool all = !heads.kept;
  std::vector<std::int64_t> place(static_cast<std::size_t>(all ? 1 : heads.blocks->groups), all ? 0 : -1);
  for (std::size_t i = 0; !all && i < heads.kept->size(); ++i)
    place[static_cast<std::size_t>((*heads.kept)[i])] = static_cast<std::int64_t>(i);
  const std::int64_t block = all ? p.global.elements() : heads.blocks->block, before = std::ssize(place),
                     after = all ? 1 : std::ssize(*heads.kept);
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
  return bits;
}

}  // namespace detail

/// Sets the weights of a pruned model's store from those of the whole model's: of parameters with heads, whole or
/// adapters', the groups that each layer keeps, all others as they are. Sharding policies and precisions may be two;
/// the layers lie on the same stages, and projections are of one policy. Adapters that only the pruned model has stay
/// as they were born. Moments aren't touched. All ranks call it. Throws weft::failure on all of them, before anything
/// is set, naming the parameter that isn't there or is of another size; and where a number can't be stored in few bits.
/// Memory beside the stores: one parameter at a time, its whole where heads went.
template <class From, class To>
void copy_pruned(context& ctx, From& whole, To& to, const kept_heads& kept) {
  std::map<std::string, const parameter_record*, std::less<>> wanted;
  std::vector<const parameter_record*> given;
  using none = std::optional<std::vector<float>>;
  whole.load_parameters([&](const parameter_record& p) -> none {
    given.push_back(&p);
    return {};
  });
  to.load_parameters([&](const parameter_record& p) -> none {
    wanted[p.name] = &p;
    return {};
  });
  const std::vector<std::int64_t> groups = detail::groups_of_all(ctx, detail::groups_here(whole));
  detail::on_all_or_none(ctx, [&] { detail::check_taken(given, wanted, groups, kept); });
  whole.each_parameter(
      [&](const parameter_record& p, const auto&, const auto& weights) {
        const parameter_record& target = *wanted.at(p.name);
        const detail::taken_heads heads(p, groups, kept);
        using numbers = detail::taken_numbers<typename From::master>;
        // Where it is stored in few bits every rank reads all of it, for the scales.
        const bool as_it_is = p.global == target.global && detail::same_place(p.at, target.at) &&
                              target.stored.format == weight_format::plain;
        std::vector<std::int64_t> all;
        if (!as_it_is) all = detail::kept_numbers(ctx, p, heads, weights.data());
        to.load_parameters([&](const parameter_record& other) -> std::optional<numbers> {
          if (&other != &target) return {};
          return numbers{as_it_is ? weights.data() : nullptr, all, other.global.elements()};
        });
      },
      {});
}

}  // namespace weft
