// Dropout of one target. Included once per target by dropout.hpp.

typedef std::uint64_t vec_u64 __attribute__((vector_size(4 * lanes)));

/// The low halves of the lanes of `a` times b, 64 bits each; the high halves of `a` don't matter.
WEFT_INLINE vec_u64 multiply_low(vec_u64 a, std::uint32_t b) {
#if WEFT_TARGET == 0
  return (a & 0xffffffffu) * b;
#else
  const vec_u64 c = static_cast<std::uint64_t>(b) - vec_u64{};
  vec_u64 v;
  __asm__("vpmuludq %2, %1, %0" : "=v"(v) : "v"(a), "v"(c));
  return v;
#endif
}

/// Philox-4x32-10 at counters `counter` ... `counter` + lanes/2 - 1, four words each. Only the low halves of the lanes of
/// c0 ... c3 are words; what stands in the high halves never reaches them.  // out [2 * lanes]
WEFT_INLINE void philox_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter, std::uint32_t* out) {
  std::uint64_t counters[lanes / 2];
  for (int i = 0; i < lanes / 2; ++i) counters[i] = counter + static_cast<std::uint64_t>(i);
  vec_u64 c0;
  __builtin_memcpy(&c0, counters, sizeof c0);
  vec_u64 c1 = c0 >> 32, c2 = stream - vec_u64{}, c3 = c2 >> 32;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const vec_u64 p0 = multiply_low(c0, 0xD2511F53u), p1 = multiply_low(c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c1 = p1, c3 = p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  const vec_u64 low = (c0 & 0xffffffffu) | c1 << 32, high = (c2 & 0xffffffffu) | c3 << 32;
  for (int i = 0; i < lanes / 2; ++i) {
    const std::uint64_t pair[2] = {low[i], high[i]};
    __builtin_memcpy(out + 4 * i, pair, sizeof pair);
  }
}

/// y (+)= x times `factor`, or times zero where the word of the element's index is below `threshold`; indices count from
/// `first`.
template <class T>
inline void dropout_run(std::uint64_t seed, std::uint64_t stream, std::uint32_t threshold, accumulate_t<T> factor,
                        std::int64_t first, std::int64_t n, const T* x, T* y, bool add) {
  typedef accumulate_t<T> A;
  constexpr int step = 2 * lanes, most = 8 * step;  // elements of a call of philox_words, and of a round of the loop
  std::uint32_t words[step];
  A factors[most];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t skip = (first + done) % 4, left = n - done + skip;
    const std::int64_t filled = left < most ? (left + step - 1) / step * step : most;
    for (std::int64_t at = 0; at < filled; at += step) {
      philox_words(seed, stream, static_cast<std::uint64_t>((first + done - skip + at) / 4), words);
      for (int i = 0; i < step; ++i) factors[at + i] = words[i] < threshold ? A(0) : factor;
    }
    const std::int64_t now = (left < filled ? left : filled) - skip;
    const T* const from = x + done;
    T* const to = y + done;
    const A* const by = factors + skip;
    sweep<T>(now, [=](std::int64_t i, auto count)
                      WEFT_INLINE_LAMBDA { put(to + i, get(from + i, count) * get(by + i, count), add, count); });
    done += now;
  }
}
