// What an operation of NCCL does with the data of its ranks, by plain loops. Invariant: an operation promises no more
// than NCCL does: sums are added from a rank that is drawn, 16-bit floats are rounded at every step, and a maximum or
// minimum of floats loses a NaN.
#pragma once

#include <nccl.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../numbers.hpp"
#include "state.hpp"

namespace device {

/// What a call's array is to its communicator.
enum class nccl_array : std::uint8_t { none, plain, registered };
enum class nccl_word { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };

/// One rank's call.
struct nccl_call {
  nccl_word word = nccl_word::send;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t how = ncclSum;
  int peer = 0;  // a broadcast's root
  cudaStream_t on = nullptr;
  nccl_array in_is = nccl_array::none, out_is = nccl_array::none;

  bool pairs() const { return word == nccl_word::send || word == nccl_word::receive; }
  bool computes() const { return word == nccl_word::all_reduce || word == nccl_word::reduce_scatter; }
  std::size_t width() const {
    constexpr std::size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return widths[type];
  }
  std::size_t bytes() const { return count * width(); }
  std::size_t reads(int ranks) const {
    if (word == nccl_word::receive) return 0;
    return word == nccl_word::reduce_scatter ? bytes() * static_cast<std::size_t>(ranks) : bytes();
  }
  std::size_t writes(int ranks) const {
    if (word == nccl_word::send) return 0;
    return word == nccl_word::all_gather ? bytes() * static_cast<std::size_t>(ranks) : bytes();
  }
  const char* name() const {
    constexpr const char* names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                     "ncclBroadcast", "ncclSend",          "ncclRecv"};
    return names[static_cast<int>(word)];
  }
  /// "ncclAllReduce(8 of type 7, operation 0)"
  std::string text() const {
    std::string s = std::string(name()) + "(" + std::to_string(count) + " of type " + std::to_string(type);
    if (computes()) s += ", operation " + std::to_string(how);
    if (word == nccl_word::broadcast) s += ", root " + std::to_string(peer);
    return s + ")";
  }
  bool agrees(const nccl_call& other) const {
    const bool same = word == other.word && (pairs() || (how == other.how && peer == other.peer));
    return (same || (pairs() && other.pairs())) && count == other.count && type == other.type;
  }
  /// Whether one rank's array is registered and the other's isn't.
  bool mixes(const nccl_call& other) const {
    const auto differ = [](nccl_array a, nccl_array b) {
      return a != nccl_array::none && b != nccl_array::none && a != b;
    };
    if (!pairs()) return differ(in_is, other.in_is) || differ(out_is, other.out_is);
    return differ(in_is, other.out_is) || differ(out_is, other.in_is);
  }
};

namespace nccl_detail {

template <class T>
T folded(T a, T b, ncclRedOp_t how) {
  if constexpr (std::is_floating_point_v<T>) {
    if (how == ncclSum) return a + b;
    return how == ncclMax ? std::fmax(a, b) : std::fmin(a, b);
  } else {
    if (how == ncclSum) return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    return how == ncclMax ? (a > b ? a : b) : (a < b ? a : b);
  }
}
template <class Stored, class T, class Get, class Put>
void fold(const std::vector<const std::byte*>& in, std::size_t first, std::byte* out, std::size_t count,
          ncclRedOp_t how, const Get& get, const Put& put) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto of = [&](std::size_t k) {
      Stored s;
      std::memcpy(&s, in[(first + k) % in.size()] + i * sizeof s, sizeof s);
      return get(s);
    };
    T sum = of(0);
    Stored rounded = put(sum);
    for (std::size_t k = 1; k < in.size(); ++k) sum = get(rounded = put(folded<T>(sum, of(k), how)));
    std::memcpy(out + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

}  // namespace nccl_detail

/// out = the fold of `in`, of `count` elements each, beginning with that of rank `first`.
inline void nccl_fold(const std::vector<const std::byte*>& in, std::size_t first, std::byte* out, std::size_t count,
                      ncclDataType_t type, ncclRedOp_t how) {
  const auto plain = [&]<class T>(T) {
    const auto same = [](T x) { return x; };
    nccl_detail::fold<T, T>(in, first, out, count, how, same, same);
  };
  switch (type) {
    case ncclFloat32:
      return plain(float());
    case ncclFloat64:
      return plain(double());
    case ncclFloat16:
      return nccl_detail::fold<std::uint16_t, float>(in, first, out, count, how, float_of_f16, f16_of);
    case ncclBfloat16:
      return nccl_detail::fold<std::uint16_t, float>(in, first, out, count, how, float_of_bf16, bf16_of);
    case ncclInt32:
      return plain(std::int32_t());
    case ncclInt64:
      return plain(std::int64_t());
    default:
      return plain(std::uint8_t());
  }
}

}  // namespace device
