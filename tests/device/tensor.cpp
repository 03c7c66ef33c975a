// Products of the tensor cores and the loads that feed them, by the layouts that PTX documents. Invariant: products are
// exact and summed in double, then rounded once; a device rounds in ways of its own, by less than a bit of its inputs.
#include "families.hpp"
#include "memory.hpp"

namespace device {
namespace {

template <class T>
float element(std::uint32_t pair, int which) {
  T x;
  x.bits = static_cast<std::uint16_t>(pair >> (16 * which));
  return static_cast<float>(x);
}
// m16n8k16: lane 4 g + t has of A rows g and g + 8, columns 2 t and 2 t + 8; of B rows 2 t and 2 t + 8, column g; of C
// rows g and g + 8, columns 2 t. Each with its neighbour.
template <class T>
void multiply(warp_view& v, const instruction& in) {
  v.device->count_product();
  float a[16][16], b[16][8];
  double c[16][8];
  const auto parts = [&](std::size_t which, auto take) {
    const std::vector<operand>& all = in.operands[which].all;
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      const reading<std::uint32_t> from(v, all[static_cast<std::size_t>(i)]);
      for (int l = 0; l < lanes; ++l) take(i, l / 4, l % 4, from[l]);
    }
  };
  parts(1, [&](int i, int g, int t, std::uint32_t pair) {
    for (int h = 0; h < 2; ++h) a[g + 8 * (i % 2)][2 * t + h + 8 * (i / 2)] = element<T>(pair, h);
  });
  parts(2, [&](int i, int g, int t, std::uint32_t pair) {
    for (int h = 0; h < 2; ++h) b[2 * t + h + 8 * i][g] = element<T>(pair, h);
  });
  parts(3, [&](int i, int g, int t, std::uint32_t x) { c[g + 8 * (i / 2)][2 * t + i % 2] = std::bit_cast<float>(x); });
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column)
        c[row][column] += static_cast<double>(a[row][k]) * static_cast<double>(b[k][column]);
  for (int i = 0; i < 4; ++i) {
    writing<float> out(v, in.operands[0].all[static_cast<std::size_t>(i)]);
    for (int l = 0; l < lanes; ++l) out.set(l, static_cast<float>(c[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2]));
  }
}
// Lane i points to row i % 8, 16 bytes, of matrix i / 8, and gets of each matrix two neighbours of row i / 4;
// transposed, two of column i / 4.
template <bool Transposed>
void load_matrices(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[1]);
  const int count = static_cast<int>(in.operands[0].all.size());
  v.device->count(in.in, at.of, count == 4 ? all_lanes : (1u << 8 * count) - 1, 16, reads);
  const std::uint8_t* row[lanes];
  for (int l = 0; l < 8 * count; ++l) row[l] = v.device->memory_for(v, in.in, at.of[l], 16, l, reads);
  for (int m = 0; m < count; ++m) {
    writing<std::uint32_t> out(v, in.operands[0].all[static_cast<std::size_t>(m)]);
    for (int l = 0; l < lanes; ++l) {
      std::uint16_t two[2];
      for (int h = 0; h < 2; ++h) {
        const int r = Transposed ? 2 * (l % 4) + h : l / 4, column = Transposed ? l / 4 : 2 * (l % 4) + h;
        std::memcpy(&two[h], row[8 * m + r] + 2 * column, 2);
      }
      out.set(l, std::uint32_t{two[1]} << 16 | two[0]);
    }
  }
}

}  // namespace

bool decode_tensor(instruction& in, const opcode& w) {
  if (w[0] == "ldmatrix") {
    in.goes = flow::warp;
    if (!only(w, {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"})) return false;
    return in.operands[0].is == operand::form::list &&
           run_by(in, says(w, "trans") ? load_matrices<true> : load_matrices<false>);
  }
  if (w[0] != "mma" || !only(w, {"sync", "aligned", "m16n8k16", "row", "col"}) || !says(w, "m16n8k16")) return false;
  in.goes = flow::warp;
  if (w.size() != 10 || !is_float(in.of, 4) || w[6] != "f32" || w[7] != w[8] || w[9] != "f32") return false;
  return run_by(in, w[7] == "bf16" ? multiply<bf16> : w[7] == "f16" ? multiply<f16> : nullptr);
}

}  // namespace device
