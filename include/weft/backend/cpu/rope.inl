// Rotary position embedding of one target. Included once per target by rope.hpp.

/// All heads of one position.  // x, y [heads, 2*half], c, s [half]
template <class T>
inline void rope_row(std::int64_t heads, std::int64_t half, const T* x, const accumulate_t<T>* c,
                     const accumulate_t<T>* s, accumulate_t<T> direction, T* y, bool add) {
  for (std::int64_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half)
    sweep<T>(half, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA {
      const auto a = get(x + i, count), b = get(x + half + i, count);
      const auto cosine = get(c + i, count), sine = get(s + i, count) * direction;
      put(y + i, a * cosine - b * sine, add, count);
      put(y + half + i, b * cosine + a * sine, add, count);
    });
}
