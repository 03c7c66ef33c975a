// 64 bits that stand for an array's numbers, and single numbers as text. Invariant: padding counts for nothing; arrays
// that differ in an element, in type or in global extents have different hashes, but for one in about 2^64.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

#include "weft/core/error.hpp"
#include "weft/memory/local_array.hpp"

namespace weft::detail {

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's output function
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Four words at a time, each multiplied on its own, so that the products overlap. A word goes in by a bijection of
/// what came before: one that differs is never forgotten.
WEFT_LINKED std::uint64_t hash_bytes(const void* from, std::size_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t odd[4] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u, 0xd6e8feb86659fd93u};
  const auto* at = static_cast<const unsigned char*>(from);
  std::uint64_t lane[4] = {seed + 1, seed + 2, seed + 3, seed + 4};
  std::size_t left = bytes;
  for (; left >= 32; left -= 32, at += 32) {
    std::uint64_t word[4];
    std::memcpy(word, at, 32);
    for (int i = 0; i < 4; ++i) {
      lane[i] = (lane[i] ^ word[i]) * odd[i];
      lane[i] ^= lane[i] >> 29;
    }
  }
  std::uint64_t tail[4] = {};
  if (left > 0) std::memcpy(tail, at, left);  // of nothing there may be no address
  std::uint64_t all = mix(bytes);
  for (int i = 0; i < 4; ++i) all = mix(all ^ mix((lane[i] ^ tail[i]) * odd[i]));
  return all;
}

[[gnu::noinline]] inline std::uint64_t hash_of_step(std::string_view name, const shape& sizes, std::uint64_t numbers) {
  return hash_bytes(sizes.extent, static_cast<std::size_t>(sizes.ndim) * sizeof sizes.extent[0],
                    hash_bytes(name.data(), name.size(), numbers));
}
inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

/// Of the first `valid` elements of every dimension of x, in the host's memory, as part of a tensor of extents `whole`.
WEFT_LINKED std::uint64_t hash_of(const local_array& x, const shape& valid, const shape& whole) {
  std::uint64_t hash = mix(static_cast<std::uint64_t>(x.type) + 1);
  for (int d = 0; d < whole.ndim; ++d) hash = mix(hash ^ static_cast<std::uint64_t>(whole[d]));
  if (valid.elements() == 0) return hash;
  int runs = valid.ndim;  // dimensions from here on lie close together
  while (runs > 0 && valid[runs - 1] == x.shape[runs - 1]) --runs;
  if (runs > 0) --runs;
  const auto* bytes = static_cast<const std::byte*>(x.data);
  const std::size_t width = size_of(x.type), run = static_cast<std::size_t>(valid.elements(runs)) * width;
  std::int64_t at[max_ndim] = {};
  for (;;) {
    std::int64_t first = 0;
    for (int d = 0; d < runs; ++d) first = first * x.shape[d] + at[d];
    hash = hash_bytes(bytes + static_cast<std::size_t>(first * x.shape.elements(runs)) * width, run, hash);
    int d = runs - 1;
    for (; d >= 0 && ++at[d] == valid[d]; --d) at[d] = 0;
    if (d < 0) return hash;
  }
}

/// The place of valid element i, row-major among the valid ones, and its offset in x.
struct element_place {
  std::int64_t at[max_ndim] = {};
  std::int64_t offset = 0;

  element_place(const local_array& x, const shape& valid, std::int64_t i) {
    for (int d = valid.ndim - 1; d >= 0; --d) at[d] = i % valid[d], i /= valid[d];
    for (int d = 0; d < valid.ndim; ++d) offset = offset * x.shape[d] + at[d];
  }
};

/// "at [3, 17] "; empty for a scalar.
[[gnu::cold]] WEFT_LINKED std::string text_of(const element_place& place, int ndim) {
  std::string out;
  for (int d = 0; d < ndim; ++d) out += text(d == 0 ? "at [" : ", ", place.at[d]);
  return ndim == 0 ? out : out + "] ";
}

[[gnu::cold, gnu::noinline]] inline std::string number_text(double x) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.9g", x);
  return digits;
}
/// An element whose bytes begin a word.
[[gnu::cold]] WEFT_LINKED std::string number_text(dtype type, std::uint64_t word) {
  return visit_dtype(type, [&]<class T>() {
    T x;
    std::memcpy(static_cast<void*>(&x), &word, sizeof x);
    if constexpr (floating<T>)
      return number_text(static_cast<double>(x));
    else
      return std::to_string(x);
  });
}

}  // namespace weft::detail
