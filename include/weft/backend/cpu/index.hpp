// A loop nest over several strided arrays of one shape, with neighbouring dimensions joined where every array allows.
// Invariant: the order of elements is row-major in the extents given.
#pragma once

#include <array>
#include <cstddef>

#include <weft/backend/cpu/common.hpp>
#include <weft/core/error.hpp>

namespace weft::cpu::detail {

template <std::size_t Arrays>
class loop {
 public:
  loop(int ndim, const int64* extents, const std::array<const int64*, Arrays>& strides) {
    require(ndim >= 0 && ndim <= max_ndim, "a strided kernel takes at most ", max_ndim, " dimensions, not ", ndim,
            ": join dimensions first.");
    for (int d = 0; d < ndim; ++d) {
      if (extents[d] == 1) continue;
      bool joins = ndim_ > 0;
      for (std::size_t a = 0; a < Arrays; ++a) joins = joins && stride_[a][ndim_ - 1] == extents[d] * strides[a][d];
      if (!joins) ++ndim_;
      extent_[ndim_ - 1] = joins ? extent_[ndim_ - 1] * extents[d] : extents[d];
      for (std::size_t a = 0; a < Arrays; ++a) stride_[a][ndim_ - 1] = strides[a][d];
    }
    if (ndim_ == 0) {
      ndim_ = 1;
      extent_[0] = 1;
      for (std::size_t a = 0; a < Arrays; ++a) stride_[a][0] = 1;
    }
  }

  int ndim() const { return ndim_; }
  int64 extent(int d) const { return extent_[d]; }
  int64 stride(std::size_t array, int d) const { return stride_[array][d]; }
  int64 inner() const { return extent_[ndim_ - 1]; }
  int64 inner_stride(std::size_t array) const { return stride_[array][ndim_ - 1]; }

  /// Number of innermost rows.
  int64 outer() const {
    int64 n = 1;
    for (int d = 0; d + 1 < ndim_; ++d) n *= extent_[d];
    return n;
  }

  /// Where row number `row` begins in each array.
  std::array<int64, Arrays> offsets(int64 row) const {
    std::array<int64, Arrays> at{};
    for (int d = ndim_ - 2; d >= 0; --d) {
      const int64 i = row % extent_[d];
      row /= extent_[d];
      for (std::size_t a = 0; a < Arrays; ++a) at[a] += i * stride_[a][d];
    }
    return at;
  }

  /// Calls f(offsets) for rows begin ... end - 1.
  template <class F>
  void each(int64 begin, int64 end, F f) const {
    if (begin >= end) return;
    auto at = offsets(begin);
    int64 index[max_ndim] = {};
    int64 row = begin;
    for (int d = ndim_ - 2; d >= 0; --d) index[d] = row % extent_[d], row /= extent_[d];
    for (row = begin;;) {
      f(at);
      if (++row == end) return;
      for (int d = ndim_ - 2;; --d) {
        for (std::size_t a = 0; a < Arrays; ++a) at[a] += stride_[a][d];
        if (++index[d] < extent_[d]) break;
        for (std::size_t a = 0; a < Arrays; ++a) at[a] -= extent_[d] * stride_[a][d];
        index[d] = 0;
      }
    }
  }

  /// The same elements with dimension d and the last one exchanged.
  loop with_last(int d) const {
    loop turned = *this;
    turned.extent_[d] = inner(), turned.extent_[ndim_ - 1] = extent_[d];
    for (std::size_t a = 0; a < Arrays; ++a)
      turned.stride_[a][d] = inner_stride(a), turned.stride_[a][ndim_ - 1] = stride_[a][d];
    return turned;
  }

  /// The same nest with one dimension, not the last, left out.
  loop without(int dimension) const {
    loop rest = *this;
    for (int d = dimension; d + 1 < ndim_; ++d) {
      rest.extent_[d] = extent_[d + 1];
      for (std::size_t a = 0; a < Arrays; ++a) rest.stride_[a][d] = stride_[a][d + 1];
    }
    --rest.ndim_;
    return rest;
  }

 private:
  int ndim_ = 0;
  int64 extent_[max_ndim] = {};
  int64 stride_[Arrays][max_ndim] = {};
};

}  // namespace weft::cpu::detail
