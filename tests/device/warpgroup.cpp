// wgmma: products of four warps, which read shared memory and write registers later, by the layouts that PTX documents;
// and what else warps of a warpgroup do alike. A warp's part, 16 of 64 rows, is computed when it waits for it.
// Invariant: as in tensor.cpp, products are exact and summed in double, then rounded once.
#include <array>
#include <charconv>

#include "families.hpp"
#include "lanes.hpp"
#include "phase.hpp"

namespace device {
namespace {

enum form_of_a : std::uint8_t { from_shared, from_registers };
// Operands: D, A, B, scale-d, then whole numbers: both signs, and whether A (if it is in shared memory) and B lie by
// columns. `number`: N.
bool by_columns(const instruction& in, bool of_b) {
  return in.operands[in.choice == from_shared && !of_b ? 6 : in.operands.size() - 1].value != 0;
}

struct matrix_descriptor {
  std::uint64_t start, leading, stride;
  int swizzle;
  explicit matrix_descriptor(std::uint64_t bits)
      : start((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4) {
    constexpr int bytes[] = {0, 128, 64, 32};
    swizzle = bytes[bits >> 62];
  }
};
// Where 16 bytes lie, without and with swizzling. By rows (K-major): chunk `c` of row `r`, of 2. By columns: 8 rows
// from 8 c on of column r, of 16.
std::uint64_t chunk_at(const matrix_descriptor& d, bool columns, int r, int c) {
  const auto row = static_cast<std::uint64_t>(r), chunk = static_cast<std::uint64_t>(c);
  const auto width = static_cast<std::uint64_t>(d.swizzle ? d.swizzle : 16), chunks = width / 16;
  std::uint64_t at = d.start;
  if (!columns)
    at += row / 8 * d.stride + row % 8 * width + (d.swizzle ? chunk * 16 : chunk * d.leading);
  else if (d.swizzle)
    at += chunk / chunks * d.leading + chunk % chunks * 16 + row / 8 * d.stride + row % 8 * width;
  else
    at += chunk * d.stride + row / 8 * d.leading + row % 8 * 16;
  return swizzled(at, d.swizzle);
}

void each_register(const operand& o, auto f) {
  for (const operand& each : o.all) f(each.at / 64);
}

// Reads a chunk as the asynchronous proxy does.
const std::uint8_t* chunk(warp_view& v, std::uint64_t at, int lane) {
  return v.device->memory_for(v, space::shared, at, 16, lane, reads | by_proxy);
}

void begin(warp_view& v, const instruction& in) {
  warp& w = *v.own;
  v.device->count_product(in.number / 8);
  late_product p;
  p.of = &in, p.at = v.at, p.group = w.product_group;
  const std::uint32_t adds = predicate(v, in.operands[3]);
  p.adds = adds & 1;
  if (adds != 0 && adds != all_lanes) v.report(0, 75, "lanes of a warp don't agree on whether a wgmma adds");
  std::uint64_t key = 0;  // what the four warps have to agree on
  const auto descriptor = [&](const operand& o) {
    const reading<std::uint64_t> bits(v, o);
    each_lane(all_lanes, [&](int l) {
      if (bits[l] != bits[0]) v.report(l, 76, "lanes of a warp don't agree on where a matrix lies");
    });
    key = key * 0x9e3779b97f4a7c15ull + bits[0];
    if (bits[0] >> 49 & 7) throw refused("the device on the host doesn't know a base offset of wgmma's matrices");
    return matrix_descriptor(bits[0]);
  };
  if (in.choice == from_shared) {
    const matrix_descriptor d = descriptor(in.operands[1]);
    const bool columns = by_columns(in, false);
    const int first = w.number % 4 * 16;
    for (int i = 0; i < 16; ++i)
      for (int c = 0; c < 2; ++c)
        p.a.push_back(static_cast<std::uint32_t>(columns ? chunk_at(d, true, i, first / 8 + c)
                                                         : chunk_at(d, false, first + i, c)));
  }
  const matrix_descriptor d = descriptor(in.operands[2]);
  const bool columns = by_columns(in, true);
  for (int i = 0; i < (columns ? 16 : in.number); ++i)
    for (int c = 0; c < (columns ? in.number / 8 : 2); ++c)
      p.b.push_back(static_cast<std::uint32_t>(chunk_at(d, columns, i, c)));
  // It may read at once, too.
  for (const auto* chunks : {&p.a, &p.b})
    for (const std::uint32_t at : *chunks) {
      chunk(v, at, 0);
      if (at / 16 < v.in->in_flight.size()) ++v.in->in_flight[at / 16], ++v.in->in_flight_chunks;
    }
  const auto take = [&](std::size_t r) {
    if (w.written[r] == w.fences) v.report(0, 73, "a register of wgmma was written with no wgmma.fence after it");
    ++w.busy[r];
  };
  for (const late_product& before : w.products)  // products of one shape may follow each other in their sums
    if (before.of->number != in.number)
      each_register(in.operands[0], [&](std::size_t r) {
        each_register(before.of->operands[0], [&](std::size_t other) {
          if (r == other) v.report(0, 72, "a register is touched that a wgmma in flight has");
        });
      });
  each_register(in.operands[0], take);
  each_register(in.operands[1], take);
  // All four warps give the same.
  auto& given = v.in->products[w.number / 4];
  const auto n = static_cast<std::size_t>(w.products_given++);
  if (n == given.size()) given.emplace_back(v.at, key);
  if (given[n] != std::pair{v.at, key}) v.report(0, 77, "warps of a warpgroup give different products");
  w.products.push_back(std::move(p));
}

template <class T>
float element(const std::uint8_t* two) {
  T x;
  std::memcpy(&x.bits, two, 2);
  return static_cast<float>(x);
}
template <class T>
void compute(warp_view& v, const late_product& p) {
  const instruction& in = *p.of;
  const int n = in.number;
  const float sign = static_cast<float>(in.operands[4].value * in.operands[5].value);
  float a[16][16];
  std::vector<float> b(static_cast<std::size_t>(16 * n));
  std::vector<double> d(static_cast<std::size_t>(16 * n));
  // f(row, column, chunk, element of it) of a matrix of 16 columns.
  const auto parts = [](bool columns, int rows, auto f) {
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < 16; ++k) columns ? f(r, k, k * (rows / 8) + r / 8, r % 8) : f(r, k, 2 * r + k / 8, k % 8);
  };
  const auto read = [&](const std::vector<std::uint32_t>& chunks) {
    std::vector<const std::uint8_t*> from;
    for (const std::uint32_t at : chunks) {
      from.push_back(chunk(v, at, 0));
      if (at / 16 < v.in->in_flight.size()) --v.in->in_flight[at / 16], --v.in->in_flight_chunks;
    }
    return from;
  };
  if (in.choice == from_shared) {
    const auto from = read(p.a);
    parts(by_columns(in, false), 16,
          [&](int r, int k, int c, int e) { a[r][k] = element<T>(from[static_cast<std::size_t>(c)] + 2 * e); });
  } else {
    for (int i = 0; i < 4; ++i) {
      const reading<std::uint32_t> from(v, in.operands[1].all[static_cast<std::size_t>(i)]);
      for (int l = 0; l < lanes; ++l)
        for (int h = 0; h < 2; ++h) {
          const auto bits = static_cast<std::uint16_t>(from[l] >> 16 * h);
          a[l / 4 + 8 * (i % 2)][2 * (l % 4) + h + 8 * (i / 2)] =
              element<T>(reinterpret_cast<const std::uint8_t*>(&bits));
        }
    }
  }
  const auto from = read(p.b);
  parts(by_columns(in, true), n, [&](int r, int k, int c, int e) {
    b[static_cast<std::size_t>(k * n + r)] = element<T>(from[static_cast<std::size_t>(c)] + 2 * e);
  });
  // Of D lane 4 g + t has rows g and g + 8, columns 8 j + 2 t and the next.
  const auto sums = [&](auto f) {
    for (int i = 0; i < n / 2; ++i)
      f(in.operands[0].all[static_cast<std::size_t>(i)], [=](int l) {
        return static_cast<std::size_t>((l / 4 + 8 * (i / 2 % 2)) * n + i / 4 * 8 + 2 * (l % 4) + i % 2);
      });
  };
  if (p.adds)
    sums([&](const operand& o, auto place) {
      const reading<float> old(v, o);
      for (int l = 0; l < lanes; ++l) d[place(l)] = old[l];
    });
  for (int r = 0; r < 16; ++r)
    for (int k = 0; k < 16; ++k) {
      const double x = static_cast<double>(a[r][k] * sign);
      const float* const line = b.data() + k * n;
      double* const sum = d.data() + r * n;
      for (int j = 0; j < n; ++j) sum[j] += x * static_cast<double>(line[j]);
    }
  sums([&](const operand& o, auto place) {
    writing<float> out(v, o);
    for (int l = 0; l < lanes; ++l) out.set(l, static_cast<float>(d[place(l)]));
  });
}

void fence(warp_view& v, const instruction&) { ++v.own->fences; }
void end_group(warp_view& v, const instruction&) { ++v.own->product_group; }
void wait(warp_view& v, const instruction& in) {
  warp& w = *v.own;
  std::size_t done = 0;
  for (; done < w.products.size() && w.products[done].group < w.product_group - in.number; ++done) {
    const late_product& p = w.products[done];
    warp_view then = v;
    then.at = p.at, then.mask = all_lanes;
    (p.of->from.is == kind::bf16 ? compute<bf16> : compute<f16>)(then, p);
    for (const std::size_t i : {0, 1}) each_register(p.of->operands[i], [&](std::size_t r) { --w.busy[r]; });
  }
  w.products.erase(w.products.begin(), w.products.begin() + static_cast<std::ptrdiff_t>(done));
}

void elect(warp_view& v, const instruction& in) {
  const int first = std::countr_zero(v.mask);
  const operand& to = in.operands[0];
  writing<std::uint32_t> out(v, to.all[0]);
  each_lane(v.mask, [&](int l) { out.set(l, static_cast<std::uint32_t>(first)); });
  set_predicate(v, to.all[1], 1u << first);
}
// Of a block's registers, as many as its threads had when it began, or fewer.
void ask_for_registers(warp_view& v, const instruction& in) {
  v.own->registers_asked = in.number;
  const int threads = static_cast<int>(v.in->warps.size()) * lanes, each = 65536 / threads / 8 * 8;
  int all = 0;
  for (const warp& w : v.in->warps) {
    if (!w.registers_asked) return;
    all += w.registers_asked * lanes;
  }
  if (all > std::min(each, 255) * threads)
    v.report(0, 78,
             "warps ask for " + std::to_string(all) + " registers, of which the block has " +
                 std::to_string(std::min(each, 255) * threads));
}

// m64nNk16: N, a multiple of 8 up to 256; 0 for other words.
int columns_of(std::string_view shape) {
  if (!shape.starts_with("m64n") || !shape.ends_with("k16")) return 0;
  shape = shape.substr(4, shape.size() - 7);
  int n = 0;
  const auto end = std::from_chars(shape.data(), shape.data() + shape.size(), n).ptr;
  return end == shape.data() + shape.size() && n >= 8 && n <= 256 && n % 8 == 0 ? n : 0;
}

}  // namespace

bool decode_warpgroup(instruction& in, const opcode& w) {
  if (w[0] == "elect") {
    in.goes = flow::warp;
    return only(w, {"sync"}) && in.operands.size() == 2 && in.operands[0].is == operand::form::list &&
           run_by(in, elect);
  }
  if (w[0] == "setmaxnreg") {
    in.goes = flow::warp;
    in.number = static_cast<int>(in.operands[0].value);
    return only(w, {"inc", "dec", "sync", "aligned", "u32"}) && in.number >= 24 && in.number <= 256 &&
           in.number % 8 == 0 && run_by(in, ask_for_registers);
  }
  if (w[0] != "wgmma" || w.size() < 4 || w[2] != "sync" || w[3] != "aligned") return false;
  in.goes = flow::warp;
  if (w[1] == "fence") return w.size() == 4 && run_by(in, fence);
  if (w[1] == "commit_group") return w.size() == 4 && run_by(in, end_group);
  if (w[1] == "wait_group") {
    in.number = static_cast<int>(in.operands[0].value);
    return w.size() == 4 && run_by(in, wait);
  }
  if (w[1] != "mma_async" || w.size() != 8 || w[5] != "f32" || w[6] != w[7] || (w[6] != "bf16" && w[6] != "f16"))
    return false;
  in.number = columns_of(w[4]);
  in.choice = in.operands.size() > 1 && in.operands[1].is == operand::form::list ? from_registers : from_shared;
  if (!in.number || in.operands.size() != (in.choice == from_shared ? 8u : 7u)) return false;
  if (in.operands[0].all.size() != static_cast<std::size_t>(in.number / 2)) return false;
  if (in.choice == from_registers && in.operands[1].all.size() != 4) return false;
  for (std::size_t i = 4; i < in.operands.size(); ++i)
    if (in.operands[i].is != operand::form::number) return false;
  return run_by(in, begin);
}

}  // namespace device
