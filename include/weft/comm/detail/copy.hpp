// Copies that may go around the cache, for outputs too large to be found there afterwards.
// Invariant: after publish_copies() they are ordered like any other store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <weft/core/linked.hpp>

// Stores around the cache are invisible to a thread sanitizer, so it gets plain ones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__) && !defined(__SANITIZE_THREAD__)
#define WEFT_DETAIL_STREAM 1
#endif

namespace weft::detail {

WEFT_LINKED void copy_around_cache(std::byte* out, const std::byte* in, std::int64_t bytes) {
#ifdef WEFT_DETAIL_STREAM
  typedef long long two __attribute__((vector_size(16)));
  std::int64_t i = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(out) & 15);
  if (i > bytes) i = bytes;
  std::memcpy(out, in, static_cast<std::size_t>(i));
  const auto step = [&](std::int64_t at) {
    two x;
    std::memcpy(&x, in + at, sizeof x);
#ifdef __clang__
    __builtin_nontemporal_store(x, reinterpret_cast<two*>(out + at));
#else
    __builtin_ia32_movntdq(reinterpret_cast<two*>(out + at), x);
#endif
  };
  for (const std::int64_t last = bytes - 63; i < last; i += 64) step(i), step(i + 16), step(i + 32), step(i + 48);
  std::memcpy(out + i, in + i, static_cast<std::size_t>(bytes - i));
#else
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
#endif
}

inline void copy(std::byte* out, const std::byte* in, std::int64_t bytes, bool around_cache) {
  if (out == in) return;
  if (around_cache) return copy_around_cache(out, in, bytes);
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
}

inline void publish_copies() {
#ifdef WEFT_DETAIL_STREAM
  __builtin_ia32_sfence();
#endif
}

}  // namespace weft::detail
