// Matrix products on tile registers (AMX): 32 x 32 of c in four tiles, 32 values of k a step.
// Invariant: the kernel sees tiles only through a tile unit, so that the emulated unit runs the very same code.
// A packed panel of a is [k / 32][32 rows][32 values]; one of b is the pair layout [k / 2][32 columns][2].

/// Eight tile registers of 16 rows x 64 bytes in plain C++, with the sums of tdpbf16ps in its order.
struct emulated_tiles {
  alignas(64) unsigned char memory[8][16][64];

  template <int Tile>
  void zero() {
    __builtin_memset(memory[Tile], 0, sizeof memory[Tile]);
  }
  template <int Tile>
  void load(const void* from, std::int64_t stride) {
    for (int i = 0; i < 16; ++i) __builtin_memcpy(memory[Tile][i], static_cast<const char*>(from) + i * stride, 64);
  }
  template <int Tile>
  void store(void* to, std::int64_t stride) const {
    for (int i = 0; i < 16; ++i) __builtin_memcpy(static_cast<char*>(to) + i * stride, memory[Tile][i], 64);
  }
  template <int Sum, int A, int B>
  void multiply() {
    float sum[16][16];
    bf16 a[16][32], b[16][32];
    __builtin_memcpy(sum, memory[Sum], sizeof sum);
    __builtin_memcpy(static_cast<void*>(a), memory[A], sizeof a);
    __builtin_memcpy(static_cast<void*>(b), memory[B], sizeof b);
    for (int i = 0; i < 16; ++i)
      for (int pair = 0; pair < 16; ++pair)
        for (int j = 0; j < 16; ++j) {
          sum[i][j] += float(a[i][2 * pair]) * float(b[pair][2 * j]);
          sum[i][j] += float(a[i][2 * pair + 1]) * float(b[pair][2 * j + 1]);
        }
    __builtin_memcpy(memory[Sum], sum, sizeof sum);
  }
};

#if WEFT_TARGET == 2
/// The processor's tiles. Inline assembly: the compiler need not know AMX, and GCC 12 drops the stores that fill the
/// operand of its _tile_loadconfig.
struct hardware_tiles {
  hardware_tiles() {
    struct alignas(64) configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } wanted;
    static_assert(sizeof wanted == 64);
    __asm__ volatile("ldtilecfg %0" : : "m"(wanted));
  }
  hardware_tiles(const hardware_tiles&) = delete;
  hardware_tiles& operator=(const hardware_tiles&) = delete;
  ~hardware_tiles() { __asm__ volatile("tilerelease"); }

  template <int Tile>
  WEFT_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  template <int Tile>
  WEFT_INLINE void load(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Tile>
  WEFT_INLINE void store(void* to, std::int64_t stride) const {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
  }
  template <int Sum, int A, int B>
  WEFT_INLINE void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
  }
};
#endif

/// Rows of a as tiles want them: 16 pairs of a row together. Rows beyond `count` and values beyond k are zero.
inline void pack_tiles(const bf16* from, std::int64_t across, std::int64_t along, std::int64_t count, std::int64_t k,
                       void* memory) {
  float* to = static_cast<float*>(memory);
  const std::int64_t steps = (k + 31) / 32;
  for (std::int64_t first = 0; first < count; first += 32)
    for (std::int64_t step = 0; step < steps; ++step, to += 32 * 16)
      for (int i = 0; i < 32; i += lanes)
        for (int u = 0; u < 16; u += lanes) {
          vec v[lanes] = {};
          const std::int64_t rows = count - first - i, k_first = step * 32 + 2 * u, k_left = k - k_first;
          const bf16* at = from + (rows > 0 ? first + i : 0) * across + (k_left > 0 ? k_first : 0) * along;
          if (across == 1 && along != 1) {  // a column of pairs at a time, then transposed
            for (int p = 0; p < lanes && 2 * p < k_left && rows > 0; ++p)
              v[p] = pair_units::across(at + 2 * p * along, along, k_left - 2 * p, rows);
            transpose(v);
          } else {
            for (int r = 0; r < lanes && r < rows && k_left > 0; ++r) {
              if (along == 1)
                v[r] = pair_units::along(at + r * across, k_left);
              else
                for (int p = 0; p < lanes && 2 * p < k_left; ++p)
                  v[r][p] = pair_units::one(at + r * across + 2 * p * along, along, k_left - 2 * p);
            }
          }
          for (int r = 0; r < lanes; ++r) store(to + (i + r) * 16 + u, v[r]);
        }
}

template <class Tiles, class Out>
inline void tile_block(const cpu::detail::matmul_block<Out>& g) {
  constexpr std::int64_t width = 32, a_step = 32 * 64, b_step = 16 * 128;  // bytes per 32 values of k
  alignas(64) float buffer[width * width];
  Tiles tiles;
  for (std::int64_t j = 0; j < g.columns; j += width) {
    const std::int64_t columns = g.columns - j < width ? g.columns - j : width;
    for (std::int64_t i = 0; i < g.rows; i += width) {
      const std::int64_t rows = g.rows - i < width ? g.rows - i : width;
      const bool lower = rows > 16, right = columns > 16;
      const char* a = g.a + i / width * g.a_layout.panel;
      const char* b = g.b + j / width * g.b_layout.panel;
      tiles.template zero<0>();
      tiles.template zero<1>();
      tiles.template zero<2>();
      tiles.template zero<3>();
      for (std::int64_t step = 0; step < g.units / 16; ++step, a += a_step, b += b_step) {
        tiles.template load<4>(a, 64);
        tiles.template load<6>(b, 128);
        tiles.template multiply<0, 4, 6>();
        if (right) {
          tiles.template load<7>(b + 64, 128);
          tiles.template multiply<1, 4, 7>();
        }
        if (lower) {
          tiles.template load<5>(a + 16 * 64, 64);
          tiles.template multiply<2, 5, 6>();
          if (right) tiles.template multiply<3, 5, 7>();
        }
      }
      Out* c = g.c + i * g.c_row + j;
      float* to = buffer;
      std::int64_t to_row = width;
      bool direct = false;
      if constexpr (sizeof(Out) == sizeof(float)) direct = rows == width && columns == width && !g.accumulate;
      if constexpr (sizeof(Out) == sizeof(float))
        if (direct) to = c, to_row = g.c_row;
      const std::int64_t stride = to_row * std::int64_t{sizeof(float)};
      tiles.template store<0>(to, stride);
      tiles.template store<1>(to + 16, stride);
      tiles.template store<2>(to + 16 * to_row, stride);
      tiles.template store<3>(to + 16 * to_row + 16, stride);
      if (!direct) add_tile(buffer, width, rows, columns, c, g.c_row, g.accumulate);
    }
  }
}

/// The kernels over one tile unit.
inline cpu::detail::matmul_tile amx_tile() { return {32, 32, 2, 16, false, false}; }
template <class Tiles, class Out>
inline cpu::detail::matmul_kernels<bf16, Out> tile_kernels() {
  return {amx_tile(), pack_tiles, pack<pair_units, 32, 16>, tile_block<Tiles, Out>};
}
