// Micro-kernels on vector registers: one tile of c stays in registers while k runs.
// Invariant: every element of a tile sums its products in order of k, whatever the tile's height or place.

// What one step along k does. `full`, `mid`, `low` are the heights that are compiled.
template <class Value>
struct single_step {  // one value of a times a row of b
  using value = Value;
  using vector = decltype(load(static_cast<const Value*>(nullptr)));
  static constexpr int width = static_cast<int>(sizeof(vector) / sizeof(Value));
  static constexpr int full = WEFT_TARGET == 2 ? 14 : WEFT_TARGET == 1 ? 6 : 4;
  static constexpr int mid = WEFT_TARGET == 2 ? 8 : WEFT_TARGET == 1 ? 4 : 2;
  static constexpr int low = WEFT_TARGET == 2 ? 4 : WEFT_TARGET == 1 ? 2 : 1;
  static WEFT_INLINE vector broadcast(const char* p) { return splat(*reinterpret_cast<const Value*>(p)); }
  static WEFT_INLINE vector multiply_add(vector a, vector b, vector c) { return fma(a, b, c); }
};

#if WEFT_TARGET == 2
struct pair_step : single_step<float> {  // a pair of bf16 of a times a row of pairs of b: needs AVX512_BF16
  static WEFT_INLINE vec broadcast(const char* p) {
    float both;
    __builtin_memcpy(&both, p, sizeof both);
    return splat_bits(both);
  }
  static WEFT_INLINE vec splat_bits(float both) {
    vec v;
    __asm__("vbroadcastss %1, %0" : "=v"(v) : "xm"(both));
    return v;
  }
  static WEFT_INLINE vec multiply_add(vec a, vec b, vec c) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
  }
};
#endif

template <class Value>
WEFT_INLINE void prefetch(const Value* p, int count) {
  for (int i = 0; i < count; i += 64 / int{sizeof(Value)}) __builtin_prefetch(p + i);
  __builtin_prefetch(p + count - 1);
}

template <class Step, std::size_t... Row>
WEFT_INLINE void product_rows(std::int64_t units, const char* a, std::int64_t a_row, std::int64_t a_unit, const char* b,
                              std::int64_t b_unit, typename Step::value* c, std::int64_t c_row, bool accumulate,
                              std::index_sequence<Row...>) {
  using vector = typename Step::vector;
  using value = typename Step::value;
  constexpr std::size_t count = sizeof...(Row), pointers = (count + 2) / 3;
  vector left[count] = {}, right[count] = {};
  const char* at[pointers];  // every third row has a pointer; base + 1 and 2 strides are addressing modes
  for (std::size_t i = 0; i < pointers; ++i) at[i] = a + 3 * static_cast<std::int64_t>(i) * a_row;
  (prefetch(c + static_cast<std::int64_t>(Row) * c_row, 2 * Step::width), ...);
  for (; units > 0; --units) {
    const vector b_left = load(reinterpret_cast<const value*>(b));
    const vector b_right = load(reinterpret_cast<const value*>(b) + Step::width);
    const auto row = [&](int i) WEFT_INLINE_LAMBDA {
      const vector factor = Step::broadcast(at[i / 3] + (i % 3) * a_row);
      left[i] = Step::multiply_add(factor, b_left, left[i]);
      right[i] = Step::multiply_add(factor, b_right, right[i]);
    };
    (row(Row), ...);
    ((Row % 3 == 0 ? void(at[Row / 3] += a_unit) : void()), ...);
    b += b_unit;
  }
  const auto finish = [&](int i) WEFT_INLINE_LAMBDA {
    value* to = c + i * c_row;
    store(to, accumulate ? load(to) + left[i] : left[i]);
    store(to + Step::width, accumulate ? load(to + Step::width) + right[i] : right[i]);
  };
  (finish(Row), ...);
}

template <class Step, int Rows>
[[gnu::noinline]] inline void tile(std::int64_t units, const char* a, std::int64_t a_row, std::int64_t a_unit,
                                   const char* b, std::int64_t b_unit, typename Step::value* c, std::int64_t c_row,
                                   bool accumulate) {
  product_rows<Step>(units, a, a_row, a_unit, b, b_unit, c, c_row, accumulate,
                     std::make_index_sequence<static_cast<std::size_t>(Rows)>());
}

/// c (+)= the first rows x columns of a buffer of accumulators, rounded once.
template <class Value, class Out>
inline void add_tile(const Value* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, Out* c,
                     std::int64_t c_row, bool accumulate) {
  constexpr int width = static_cast<int>(sizeof(load(from)) / sizeof(Value));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; j += width) {
      const Value* p = from + i * from_row + j;
      Out* to = c + i * c_row + j;
      const std::int64_t n = columns - j;
      if (n >= width)
        store(to, accumulate ? load(to) + load(p) : load(p));
      else
        store(to, accumulate ? load(to, n) + load(p, n) : load(p, n), n);
    }
}

/// A block of c, tile by tile: a panel of b stays in the first cache while the panels of a pass by.
template <class Step, class Out>
inline void block(const cpu::detail::matmul_block<Out>& g) {
  using value = typename Step::value;
  constexpr int height = Step::full, width = 2 * Step::width;
  alignas(64) value buffer[static_cast<std::size_t>(height * width)];
  for (std::int64_t j = 0; j < g.columns; j += width) {
    const std::int64_t columns = g.columns - j < width ? g.columns - j : width;
    const bool b_apart = columns < width && g.b_tail;
    const char* b = b_apart ? g.b_tail : g.b + j / width * g.b_layout.panel;
    const std::int64_t b_unit = b_apart ? width * std::int64_t{sizeof(value)} : g.b_layout.unit;
    for (std::int64_t i = 0; i < g.rows; i += height) {
      const std::int64_t rows = g.rows - i < height ? g.rows - i : height;
      const bool a_apart = rows < height && g.a_tail;
      const char* a = a_apart ? g.a_tail : g.a + i / height * g.a_layout.panel;
      const std::int64_t a_row = a_apart ? std::int64_t{sizeof(value)} : g.a_layout.element;
      const std::int64_t a_unit = a_apart ? height * std::int64_t{sizeof(value)} : g.a_layout.unit;
      const int computed = rows <= Step::low ? Step::low : rows <= Step::mid ? Step::mid : height;
      const auto kernel = rows <= Step::low   ? tile<Step, Step::low>
                          : rows <= Step::mid ? tile<Step, Step::mid>
                                              : tile<Step, Step::full>;
      Out* c = g.c + i * g.c_row + j;
      if constexpr (sizeof(Out) == sizeof(value)) {
        if (rows == computed && columns == width) {
          kernel(g.units, a, a_row, a_unit, b, b_unit, c, g.c_row, g.accumulate);
          continue;
        }
      }
      kernel(g.units, a, a_row, a_unit, b, b_unit, buffer, width, false);
      add_tile(buffer, width, rows, columns, c, g.c_row, g.accumulate);
    }
  }
}

template <class T>
inline cpu::detail::matmul_tile single_tile(const T*) {
  using step = single_step<accumulate_t<T>>;
  return {step::full, 2 * step::width, 1, 1, sizeof(T) != 2, sizeof(T) != 2};
}
template <class T, class Out>
inline cpu::detail::matmul_kernels<T, Out> single_kernels(const cpu::detail::matmul_kernels<T, Out>*) {
  using step = single_step<accumulate_t<T>>;
  constexpr int height = step::full, width = 2 * step::width;
  const cpu::detail::matmul_tile tile = single_tile(static_cast<const T*>(nullptr));
  if constexpr (sizeof(T) == 8)
    return {tile, pack_double<height>, pack_double<width>, block<step, Out>};
  else
    return {tile, pack<single_units<T>, height, 1>, pack<single_units<T>, width, 1>, block<step, Out>};
}

#if WEFT_TARGET == 2
inline cpu::detail::matmul_tile pair_tile() { return {pair_step::full, 2 * pair_step::width, 2, 1, true, false}; }
template <class T, class Out>
inline cpu::detail::matmul_kernels<T, Out> pair_kernels() {
  constexpr int height = pair_step::full, width = 2 * pair_step::width;
  return {pair_tile(), pack<pair_units, height, 1>, pack<pair_units, width, 1>, block<pair_step, Out>};
}
#endif
