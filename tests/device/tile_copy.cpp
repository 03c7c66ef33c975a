// cp.async.bulk.tensor: tiles of a tensor from global into shared memory, swizzled, zeros where they reach beyond it;
// and the fences between ordinary accesses and the asynchronous proxy, which these are. Invariant: a tile lands when
// its barrier is asked, and not before; until then its bytes have no value.
#include <cstring>

#include "families.hpp"
#include "memory.hpp"
#include "phase.hpp"

namespace device {
namespace {

std::int64_t elements_of(const tensor_map& m) {
  std::int64_t all = 1;
  for (int d = 0; d < m.dimensions; ++d) all *= m.box[d];
  return all;
}
// f(offset in the tile, address in global memory or 0) for each 16 bytes.
template <class F>
void each_chunk(const late_tile& t, F f) {
  const tensor_map& m = t.map;
  const std::int64_t each = 16 / m.element_bytes, row = m.box[0];
  for (std::int64_t i = 0, all = elements_of(m); i < all; i += each) {
    std::int64_t left = i / row, first = t.first[0] + i % row;
    bool inside = first >= 0 && first <= m.size[0];
    std::uint64_t from = m.base + static_cast<std::uint64_t>(first) * m.element_bytes;
    for (int d = 1; d < m.dimensions; ++d) {
      const std::int64_t at = t.first[d] + left % m.box[d];
      left /= m.box[d];
      inside &= at >= 0 && at <= m.size[d];
      from += static_cast<std::uint64_t>(at) * m.stride[d];
    }
    f(static_cast<std::uint64_t>(i) * m.element_bytes, inside ? from : 0);
  }
}

void begin(warp_view& v, const instruction& in) {
  const lane_addresses to(v, in.operands[0]), map(v, in.operands[1]), phases(v, in.operands[2]);
  const std::vector<operand>& coordinates = in.operands[1].all[1].all;
  each_lane(v.mask, [&](int l) {
    late_tile t;
    t.warp = v.own->number, t.lane = l, t.at = v.at;
    for (std::size_t i = 0; i < coordinates.size(); ++i)
      t.first[i] = static_cast<std::int32_t>(reading<std::uint32_t>(v, coordinates[i])[l]);
    if (map.of[l] % 64) return v.report(l, 90, "a tensor map isn't aligned to 64 bytes");
    std::uint8_t bytes[sizeof(tensor_map)];
    for (std::size_t i = 0; i < sizeof bytes; i += 8)
      std::memcpy(bytes + i, v.device->memory_for(v, space::generic, map.of[l] + i, 8, l, reads), 8);
    std::memcpy(&t.map, bytes, sizeof bytes);
    if (t.map.mark != tensor_map::is_one)
      return v.report(l, 91, "there is no tensor map that cuTensorMapEncodeTiled made");
    if (t.map.dimensions != coordinates.size())
      return v.report(l, 92,
                      "a tensor map has " + std::to_string(t.map.dimensions) + " dimensions, not " +
                          std::to_string(coordinates.size()));
    t.to = shared_offset(to.of[l]);
    if (t.to % (t.map.swizzle_bytes ? 8u * t.map.swizzle_bytes : 128u))
      return v.report(l, 93, "a tile isn't where its swizzle repeats");
    v.device->memory_for(v, space::shared, phases.of[l], 8, l, reads | atomic);
    t.phases = shared_offset(phases.of[l]);
    const auto barrier = v.in->phases.find(t.phases);
    if (barrier == v.in->phases.end()) return v.report(l, 80, "there is no mbarrier: nobody has made one here");
    if (!barrier->second.fenced)
      v.report(l, 94, "an mbarrier is given to TMA without fence.mbarrier_init or fence.proxy.async after it was made");
    each_chunk(t, [&](std::uint64_t at, std::uint64_t) {
      v.device->memory_for(v, space::shared, swizzled(t.to + at, t.map.swizzle_bytes), 16, l,
                           writes | unfinished | by_proxy);
    });
    // In order behind what this warp has seen, this copy included.
    t.seen = v.own->seen, t.fences = v.own->fenced;
    ++v.own->seen[static_cast<std::size_t>(v.own->number)];
    v.in->tiles.push_back(std::move(t));
    ++v.in->events;
  });
}
void land(warp_view v, const late_tile& t) {
  v.own = &v.in->warps[static_cast<std::size_t>(t.warp)];
  v.at = t.at, v.mask = 1u << t.lane;
  std::uint64_t counted[lanes];
  std::uint32_t n = 0;
  const auto count = [&] {
    v.device->count(space::global, counted, n == lanes ? all_lanes : (1u << n) - 1, 16, reads);
    n = 0;
  };
  each_chunk(t, [&](std::uint64_t at, std::uint64_t from) {
    const std::uint64_t to = swizzled(t.to + at, t.map.swizzle_bytes);
    if (to + 16 > v.in->shared.bytes) return;  // said when it began
    std::uint8_t* const written = v.in->shared.written.data() + to;
    if (std::memchr(written, 1, 16))
      v.report(t.lane, 95, "shared memory is written that a copy by TMA in flight writes");
    std::memset(written, 1, 16);
    if (from) {
      std::memcpy(v.in->shared_bytes.data() + to, v.device->memory_for(v, space::global, from, 16, t.lane, reads), 16);
      counted[n++] = from;
      if (n == lanes) count();
    } else {
      std::memset(v.in->shared_bytes.data() + to, 0, 16);
    }
  });
  count();
}

// What this warp knows of is behind a fence between the proxies from here on.
template <bool OfData>
void fence(warp_view& v, const instruction&) {
  if (OfData) {
    see(v.own->fenced, v.own->seen);
    ++v.own->seen[static_cast<std::size_t>(v.own->number)];
  }
  for (auto& [at, b] : v.in->phases) b.fenced |= b.made_by == v.own->number;
}

}  // namespace

void land_tiles(warp_view& v, std::uint64_t phases) {
  std::vector<late_tile> left, landed;
  for (late_tile& t : v.in->tiles) (t.phases == phases ? landed : left).push_back(std::move(t));
  v.in->tiles = std::move(left);
  phase_barrier& b = v.in->phases.at(phases);
  for (const late_tile& t : landed) {
    land(v, t);
    b.bytes -= elements_of(t.map) * t.map.element_bytes;
    see(b.seen, t.seen), see(b.fences, t.fences);
    ++v.in->events;
  }
  if (!landed.empty()) complete_phase(b);
}

bool decode_tile_copy(instruction& in, const opcode& w) {
  if (w[0] == "fence" && w.size() > 1) {
    if (w[1] == "proxy" && w.size() > 2 && w[2] == "async" &&
        only(w, {"proxy", "async", "shared::cta", "shared::cluster"}))
      return run_by(in, fence<true>);
    if (w[1] == "mbarrier_init") return only(w, {"mbarrier_init", "release", "cluster"}) && run_by(in, fence<false>);
    return false;
  }
  if (w[0] != "cp" || w.size() != 8 || w[1] != "async" || w[2] != "bulk" || w[3] != "tensor") return false;
  if (!only(w, {"async", "bulk", "tensor", "1d", "2d", "3d", "4d", "5d", "shared::cta", "shared::cluster", "global",
                "mbarrier::complete_tx::bytes"}))
    return false;
  if (w.back() != "mbarrier::complete_tx::bytes" || in.operands.size() != 3) return false;  // and into shared memory
  const operand& map = in.operands[1];
  return map.is == operand::form::memory && map.all.size() == 2 &&
         map.all[1].all.size() == static_cast<std::size_t>(w[4][0] - '0') && run_by(in, begin);
}

}  // namespace device
