// A unit's parameters by what becomes of them: each bucket is one flat buffer, padded so that every rank along the axis
// of its storage has an equal share. Invariant: parameters lie in the order of their registration (within a share where
// shares are whole), each starting at a multiple of 16 elements (of 64 where they are stored in few bits); what differs
// from parameter to parameter is the bucket's key, and nothing else is.
#pragma once

#include <numeric>

#include <weft/nn/parameters.hpp>
#include <weft/op/create.hpp>
#include <weft/parallel/store_config.hpp>

namespace weft {

/// One parameter's place in the flat buffer, in elements.
struct flat_region {
  parameter_record* parameter;
  std::int64_t begin, count;
  ref<weft::slot> slot;  // the parameter's
  ref<weight_place> live;
};

/// A range of the flat buffer, in elements.
struct flat_range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  flat_range overlap(const flat_region& r) const {
    return {std::max(begin, r.begin), std::max(std::max(begin, r.begin), std::min(end, r.begin + r.count))};
  }
};

/// What a bucket's parameters have in common. Each is false where the storage has one rank.
struct bucket_key {
  axis_set storage{};     // along which it is sharded: those of the policy's along which ranks hold the same (so
                          // experts, of which each rank along an axis has others, aren't along that one)
  bool trained = true;    // else frozen: neither gradient, nor master weight, nor moments
  bool matrices = false;  // updated as whole matrices
  weight_format format = weight_format::plain;
  bool shards_parameters = false, shards_gradients = false, shards_optimizer = false;
  bool whole_shares = false;  // each rank's share is of whole parameters

  friend bool operator==(const bucket_key&, const bucket_key&) = default;
};

namespace detail {

/// Throws where a parameter can't be stored in its format.
WEFT_LINKED void require_storable(const parameter_record& p) {
  require(!p.trained, "parameter ", p.name, " is stored as ", name_of(p.stored.format),
          ", and what is stored in few bits can't be trained: take ", name_of(p.stored.format),
          "<lora<16>>, whose adapters are, or freeze it (registry.freeze) before the trainer or store is made");
  if (p.stored.format != weight_format::nf4) return;
  constexpr std::int64_t block = quantised_slice::block;
  std::int64_t here = 1, whole = 1;
  for (int d = p.global.ndim - 1; d >= 0; --d) {
    here *= p.local[d], whole *= p.global[d];
    if (p.local[d] == p.global[d]) continue;
    require(here % block == 0 && whole % block == 0, "parameter ", p.name, " is stored as nf4, in blocks of ", block,
            " elements, and a rank has ", here, " neighbours of ", whole, ": both have to be multiples of ", block,
            "; take fewer ranks along the axis that shards it, or int8");
    return;
  }
}

WEFT_LINKED bucket_key key_of(const context& ctx, const parameter_record& p, const store_config& config) {
  const auto among = [](axis_id axis, const std::vector<axis_id>& axes) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  bucket_key key;
  key.trained = p.trained;
  key.matrices = p.trained && config.by_shape && p.form;
  key.format = p.stored.format;
  if (key.format != weight_format::plain) require_storable(p);
  for (const axis_id axis : config.axes) {
    if (ctx.along(axis).degree == 1 || among(axis, p.sharded)) continue;
    require(!p.trained || among(axis, p.pending), "the gradient of parameter ", p.name, " is not left pending over ",
            axis->name, ", an axis of the sharding policy's, so summing it there would be wrong; declare it as ",
            "weight<strategy, dims<...>>");
    key.storage.add(axis);
  }
  if (key.storage.empty()) return key;
  key.shards_parameters = config.shards_parameters && !(config.keeps_vectors && p.global.ndim == 1);
  key.shards_gradients = p.trained && config.shards_gradients;
  key.shards_optimizer = p.trained && config.shards_optimizer;
  key.whole_shares = key.matrices && key.shards_optimizer && config.whole_shares;
  return key;
}

}  // namespace detail

/// A bucket's regions, and the share of each rank along the axes of its storage. Sizes are in elements.
struct flat_bucket {
  bucket_key key;
  axis_group* group = nullptr;  // of its storage; of one rank where that is no axis
  std::vector<flat_region> regions;
  std::int64_t size = 0;  // padded
  int parts = 1, index = 0;

  /// Each region begins at a multiple of so many elements, and each share.
  std::int64_t alignment() const { return key.format == weight_format::plain ? 16 : quantised_slice::block; }
  std::int64_t aligned(std::int64_t n) const { return (n + alignment() - 1) / alignment() * alignment(); }
  void add(parameter_record& p) {
    const std::int64_t n = p.local.elements();
    regions.push_back({&p, size, n, p.slot, p.live});
    size += aligned(n);
  }
  /// All regions are there: the shares become equal.
  WEFT_LINKED void pad() {
    if (key.whole_shares) return give_out_whole();
    const std::int64_t whole = alignment() * parts;
    size = (size + whole - 1) / whole * whole;
  }
  flat_range everything() const { return {0, size}; }
  flat_range share() const { return {size / parts * index, size / parts * (index + 1)}; }
  /// Calls f(its first region, range) for each run of neighbouring regions that are alike(first, other), with what of
  /// `within` it has, the zeros between regions too: what is done to elements takes one kernel a run.
  template <class Alike, class F>
  void each_run(flat_range within, Alike&& alike, F&& f) const {
    for (std::size_t first = 0, end; first < regions.size(); first = end) {
      for (end = first + 1; end < regions.size() && alike(regions[first], regions[end]);) ++end;
      const flat_region &a = regions[first], &z = regions[end - 1];
      const flat_range part{std::max(within.begin, a.begin), std::min(within.end, z.begin + z.count)};
      if (part.size() > 0) f(a, part);
    }
  }
  /// What this rank keeps: its share, or everything.
  flat_range kept(bool sharded) const { return sharded ? share() : everything(); }

 private:
  // The largest region first, each to the share that holds least; alike on every rank, since their sizes are.
  WEFT_LINKED void give_out_whole() {
    std::vector<std::size_t> largest(regions.size()), owner(regions.size());
    std::iota(largest.begin(), largest.end(), std::size_t{0});
    std::stable_sort(largest.begin(), largest.end(),
                     [&](std::size_t a, std::size_t b) { return regions[a].count > regions[b].count; });
    std::vector<std::int64_t> held(static_cast<std::size_t>(parts));
    for (const std::size_t r : largest) {
      const auto least = std::min_element(held.begin(), held.end());
      owner[r] = static_cast<std::size_t>(least - held.begin());
      *least += aligned(regions[r].count);
    }
    const std::int64_t share = *std::max_element(held.begin(), held.end());
    for (std::size_t part = 0; part < held.size(); ++part) held[part] = static_cast<std::int64_t>(part) * share;
    for (std::size_t r = 0; r < regions.size(); ++r) {
      regions[r].begin = held[owner[r]];
      held[owner[r]] += aligned(regions[r].count);
    }
    std::stable_sort(regions.begin(), regions.end(),
                     [](const flat_region& a, const flat_region& b) { return a.begin < b.begin; });
    size = share * parts;
  }
};

/// What one rank keeps of a parameter: its elements, or its share of them along the axes `storage` (none: all).
struct stored_parameter {
  int unit;
  const parameter_record& record;
  axis_set storage;
  std::int64_t begin, count;  // the elements that follow, of the rank's slice of the parameter
  // weight: the master weight, of a frozen one the only. gradient: empty where it is frozen. first, second: the
  // optimizer's moments, empty where it keeps fewer.
  local_array weight = {}, gradient = {}, first = {}, second = {};
  // In place of `weight`, of one that is stored in few bits: what quantised_slice calls so.
  local_array codes = {}, levels = {}, scales = {};
  bool has_numbers = true;  // false as long as such a one was given none

  bool is_quantised() const { return record.stored.format != weight_format::plain; }
  quantised_slice quantised() const {
    return {record.stored.format,
            record.at,
            record.stored.row,
            begin,
            count,
            codes.as<const std::uint8_t>(),
            levels.as<const std::uint8_t>(),
            scales.as<const float>()};
  }
};

namespace detail {

/// Throws unless a parameter has numbers: what is stored in few bits isn't born with any.
WEFT_LINKED void require_numbers(const parameter_record& p, bool has_them) {
  require(
      has_them, "parameter ", p.name, " is stored as ", name_of(p.stored.format),
      ", and has no numbers yet: what is stored in few bits is made of a trained model's weights, by load_weights or "
      "store.load_parameters(f)");
}

/// A unit's buckets, in the order of their first parameters.
WEFT_LINKED std::vector<flat_bucket> buckets_of(context& ctx, parameter_unit& unit, const store_config& config) {
  std::vector<flat_bucket> out;
  for (parameter_record& p : unit.parameters) {
    const bucket_key key = key_of(ctx, p, config);
    auto at = std::find_if(out.begin(), out.end(), [&](const flat_bucket& b) { return b.key == key; });
    if (at == out.end()) {
      at = out.emplace(out.end());
      at->key = key;
      at->group = &ctx.along(key.storage);
      at->parts = at->group->degree, at->index = at->group->index;
    }
    at->add(p);
  }
  for (flat_bucket& b : out) b.pad();
  return out;
}

/// Writes those of a parameter's numbers (global, row-major) that lie in `range` to out[0 ...), each rounded to Through
/// first. Padding is zero.
template <class Backend, class T, class Through = T, class Numbers>
void load_region(context& ctx, const flat_region& r, flat_range range, const Numbers& numbers, T* out) {
  const flat_range part = range.overlap(r);
  if (part.size() == 0) return;
  const local_array to(out + (part.begin - range.begin), dtype_of<T>, {1, {part.size()}});
  // Asked here, since nvcc's front end doesn't take the question in the lambda.
  constexpr bool reads = requires(const placed_slice& at, T* written) {
    numbers.template read<Through>(at, 0, 0, written);
  };
  write_by_host<Backend, T>(ctx, to, [&](T* written) {
    if constexpr (reads) {
      numbers.template read<Through>(r.parameter->at, part.begin - r.begin, part.size(), written);
    } else {
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        const std::int64_t at = r.parameter->at.global_index(i - r.begin);
        const double number = at < 0 ? 0 : static_cast<double>(numbers.data()[at]);
        const auto rounded = static_cast<Through>(static_cast<accumulate_t<Through>>(number));
        written[i - part.begin] = static_cast<T>(static_cast<accumulate_t<T>>(rounded));
      }
    }
  });
}

/// f(numbers) of what was given for a parameter: its numbers, or an optional of them. Throws where they aren't as many.
template <class Given, class F>
void with_numbers(const parameter_record& p, const Given& given, F&& f) {
  if constexpr (requires { given.has_value(); }) {
    if (given) with_numbers(p, *given, f);
  } else {
    const std::int64_t count = static_cast<std::int64_t>(given.size()), wanted = p.global.elements();
    require(count == wanted, "parameter ", p.name, " has ", wanted, " elements, and ", count,
            " numbers were given for it");
    f(given);
  }
}

}  // namespace detail
}  // namespace weft
