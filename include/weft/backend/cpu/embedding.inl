// Adding rows of one target. Included once per target by embedding.hpp.

/// to += from.
template <class T>
inline void add_row(std::int64_t n, const T* from, accumulate_t<T>* to) {
  sweep<T>(n, [=](std::int64_t i, auto count) WEFT_INLINE_LAMBDA { put(to + i, get(from + i, count), true, count); });
}
