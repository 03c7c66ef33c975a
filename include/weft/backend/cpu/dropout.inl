// Dropout of one target. Included once per target by dropout.hpp.

typedef std::uint64_t vec_u64 __attribute__((vector_size(4 * lanes)));

/// The low halves of the lanes of a times those of b, 64 bits each; the high halves don't matter.
WEFT_INLINE vec_u64 multiply_low(vec_u64 a, vec_u64 b) {
#if WEFT_TARGET > 0
  vec_u64 v;
  __asm__("vpmuludq %2, %1, %0" : "=v"(v) : "v"(a), "v"(b));
  return v;
#elif defined(__SSE2__)
  __asm__("pmuludq %1, %0" : "+x"(a) : "x"(b));
  return a;
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/// low[0], high[0], low[1], high[1], ...: the first half of it and the second.
WEFT_INLINE void interleave(vec_u64 low, vec_u64 high, vec_u32* out) {
#if WEFT_TARGET == 2
  out[0] = reinterpret_cast<vec_u32>(__builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11));
  out[1] = reinterpret_cast<vec_u32>(__builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15));
#elif WEFT_TARGET == 1
  out[0] = reinterpret_cast<vec_u32>(__builtin_shufflevector(low, high, 0, 4, 1, 5));
  out[1] = reinterpret_cast<vec_u32>(__builtin_shufflevector(low, high, 2, 6, 3, 7));
#else
  out[0] = reinterpret_cast<vec_u32>(__builtin_shufflevector(low, high, 0, 2));
  out[1] = reinterpret_cast<vec_u32>(__builtin_shufflevector(low, high, 1, 3));
#endif
}

/// Philox-4x32-10 at counters `counter` ... `counter` + lanes - 1, four words each, in two chains that don't wait for
/// each other. Only the low halves of the lanes of c0 ... c3, k0 and k1 are words; what stands in the high halves never
/// reaches them.  // words [4][lanes]
WEFT_INLINE void philox_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter, vec_u32* words) {
  const vec_u64 zero = {}, m0 = 0xD2511F53u + zero, m1 = 0xCD9E8D57u + zero, step0 = 0x9E3779B9u + zero,
                step1 = 0xBB67AE85u + zero;
  vec_u64 c0 = counter + reinterpret_cast<vec_u64>(numbered(vec_f64{})), c1 = c0 >> 32, c2 = stream + zero,
          c3 = c2 >> 32;
  vec_u64 d0 = c0 + lanes / 2, d1 = d0 >> 32, d2 = c2, d3 = c3;
  vec_u64 k0 = seed + zero, k1 = k0 >> 32;
  for (int round = 0; round < 10; ++round) {
    const vec_u64 p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1), q0 = multiply_low(d0, m0),
                  q1 = multiply_low(d2, m1);
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    d0 = (q1 >> 32) ^ d1 ^ k0;
    d2 = (q0 >> 32) ^ d3 ^ k1;
    c1 = p1, c3 = p0, d1 = q1, d3 = q0;
    k0 += step0, k1 += step1;
  }
  interleave((c0 & 0xffffffffu) | c1 << 32, (c2 & 0xffffffffu) | c3 << 32, words);
  interleave((d0 & 0xffffffffu) | d1 << 32, (d2 & 0xffffffffu) | d3 << 32, words + 2);
}

/// out[i] = `factor`, or zero where word i is below `threshold`.  // out [lanes]
WEFT_INLINE void factors_of(vec_u32 words, std::uint32_t threshold, float factor, float* out) {
  store(out, select(words >= threshold, splat(factor), vec{}));
}
WEFT_INLINE void factors_of(vec_u32 words, std::uint32_t threshold, double factor, double* out) {
  for (int i = 0; i < lanes; ++i) out[i] = words[i] < threshold ? 0.0 : factor;
}

/// y (+)= x times `factor`, or times zero where the word of the element's index is below `threshold`; indices count
/// from `first`.
template <class T>
inline void dropout_run(std::uint64_t seed, std::uint64_t stream, std::uint32_t threshold, accumulate_t<T> factor,
                        std::int64_t first, std::int64_t n, const T* x, T* y, bool add) {
  typedef accumulate_t<T> A;
  constexpr int step = 4 * lanes, most = 8 * step;  // elements of a call of philox_words, and of a round of the loop
  vec_u32 words[4];
  A factors[most];
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t skip = (first + done) % 4, left = n - done + skip;
    const std::int64_t filled = left < most ? (left + step - 1) / step * step : most;
    for (std::int64_t at = 0; at < filled; at += step) {
      philox_words(seed, stream, static_cast<std::uint64_t>((first + done - skip + at) / 4), words);
      for (int i = 0; i < 4; ++i) factors_of(words[i], threshold, factor, factors + at + i * lanes);
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
