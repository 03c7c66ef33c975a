// Weights of few bits to numbers. Invariant: a number is the float that its code and scale make, rounded to its type
// once, on every instruction set.
#pragma once

#include <weft/backend/cpu/common.hpp>
#include <weft/backend/quantised.hpp>

#define WEFT_KERNELS <weft/backend/cpu/dequantise.inl>
#include <weft/backend/cpu/each_target.inl>

namespace weft::cpu {

namespace detail {

template <class T>
void dequantise_nf4(int64 n, const std::uint8_t* codes, float scale, T* y) {
  WEFT_DISPATCH(dequantise_nf4, n, codes, scale, y);
}
template <class T>
void dequantise_int8(int64 n, const std::uint8_t* codes, float scale, T* y) {
  WEFT_DISPATCH(dequantise_int8, n, codes, scale, y);
}

template <class T>
void zero_run(int64 n, T* y) {
  for (int64 i = 0; i < n; ++i) y[i] = static_cast<T>(0.0f);
}

/// The scale of a block whose first element is number `at` of the whole: a product and a sum, each rounded.
inline float block_scale(const quantised_slice& q, int64 block, int64 at) {
  volatile float product = q.scales[q.levels[block]] * q.scales[quantised_slice::factors + at / quantised_slice::group];
  return product + q.scales[quantised_slice::offset];
}

}  // namespace detail

/// y[i] = what the codes stand for; 0 in the slice's padding.
template <class T>
void dequantise(team& workers, const quantised_slice& q, T* y) {
  constexpr int64 block = quantised_slice::block;
  detail::for_blocks(workers, (q.count + block - 1) / block, detail::block_elements / block, [&](int64 from, int64 to) {
    const int64 begin = from * block, end = to * block < q.count ? to * block : q.count;
    q.at.runs(q.first + begin, end - begin, [&](int64 i, int64 at, int64 n) {
      i += begin;
      if (at < 0) return detail::zero_run(n, y + i);
      for (const int64 stop = i + n; i < stop;) {
        const bool few = q.format == weight_format::nf4;
        const int64 same = few ? block - i % block : q.row - at % q.row, m = same < stop - i ? same : stop - i;
        if (few)
          detail::dequantise_nf4(m, q.codes + i / 2, detail::block_scale(q, i / block, at), y + i);
        else
          detail::dequantise_int8(m, q.codes + i, q.scales[at / q.row], y + i);
        i += m, at += m;
      }
    });
  });
}

}  // namespace weft::cpu
