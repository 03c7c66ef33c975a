// A unit's parameters as one flat buffer, padded so that every rank along the data axis has an equal share.
// Invariant: parameters lie in the order of their registration, each starting at a multiple of 16 elements.
#pragma once

#include <weft/nn/parameters.hpp>
#include <weft/tensor/random.hpp>

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

/// A unit's regions, and the share of each rank along the data axis. Sizes are in elements.
struct flat_unit {
  std::vector<flat_region> regions;
  std::int64_t size = 0;  // padded

  flat_unit() = default;
  flat_unit(parameter_unit& unit, int parts) {
    constexpr std::int64_t alignment = 16;
    for (parameter_record& p : unit.parameters) {
      const std::int64_t n = p.local.elements();
      regions.push_back({&p, size, n, p.slot, p.live});
      size += (n + alignment - 1) / alignment * alignment;
    }
    const std::int64_t whole = alignment * parts;
    size = (size + whole - 1) / whole * whole;
  }
  flat_range everything() const { return {0, size}; }
  flat_range share(int index, int parts) const { return {size / parts * index, size / parts * (index + 1)}; }
};

/// What one rank keeps of a parameter: its elements, or its share of them along the axis `storage` (null: all).
struct stored_parameter {
  int unit;
  const parameter_record& record;
  axis_id storage;
  std::int64_t begin;  // of what follows, within the rank's slice of the parameter
  // weight: the master weight; first, second: the optimizer's moments, empty where it keeps fewer.
  local_array weight, gradient, first, second;
};

namespace detail {

/// Global row-major index of local element i of a parameter, or -1 where that is padding.
inline std::int64_t global_index(const parameter_record& p, std::int64_t i) {
  std::int64_t at[max_ndim];
  for (int d = p.local.ndim - 1; d >= 0; --d) {
    const std::int64_t here = i % p.local[d];
    if (here >= p.at.valid[d]) return -1;
    at[d] = here + p.at.first[d];
    i /= p.local[d];
  }
  std::int64_t g = 0;
  for (int d = 0; d < p.local.ndim; ++d) g = g * p.global[d] + at[d];
  return g;
}

/// Initial values of the flat elements in `range`, written to out[0 ...): a function of global indices, so that each
/// rank makes just what it holds. Padding, of a parameter and between parameters, is zero.
template <class T>
void initialise(const flat_unit& unit, flat_range range, std::uint64_t seed, T* out) {
  std::fill(out, out + range.size(), T{});
  for (const flat_region& r : unit.regions) {
    const flat_range part = range.overlap(r);
    const parameter_record& p = *r.parameter;
    const philox numbers{seed, stream_of(p.name)};
    std::uint64_t counter = ~std::uint64_t{0};  // whose four normals are known: neighbours share them
    std::array<float, 4> four{};
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      double x = p.init.constant;
      const std::int64_t at = global_index(p, i - r.begin);
      if (at < 0) continue;
      if (p.init.stddev != 0) {
        const auto index = static_cast<std::uint64_t>(at);
        if (index / 4 != counter) four = numbers.normals(counter = index / 4);
        x += p.init.stddev * static_cast<double>(four[index % 4]);
      }
      out[i - range.begin] = static_cast<T>(static_cast<accumulate_t<T>>(x));
    }
  }
}

/// Writes those of a parameter's numbers (global, row-major) that lie in `range` to out[0 ...), each rounded to Through
/// first. Padding stays as it is: zero.
template <class T, class Through = T, class Numbers>
void load_region(const flat_region& r, flat_range range, const Numbers& numbers, T* out) {
  const flat_range part = range.overlap(r);
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const std::int64_t at = global_index(*r.parameter, i - r.begin);
    if (at < 0) continue;
    const auto number = static_cast<double>(numbers.data()[at]);
    const auto rounded = static_cast<Through>(static_cast<accumulate_t<Through>>(number));
    out[i - range.begin] = static_cast<T>(static_cast<accumulate_t<T>>(rounded));
  }
}

}  // namespace detail
}  // namespace weft
