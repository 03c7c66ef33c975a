// What lanes of a warp do together: shuffles, votes. Invariant: they run once all lanes that they name are there.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

enum direction : std::uint8_t { from_below, from_above, crosswise, from_lane };

void shuffle(warp_view& v, const instruction& in) {
  const operand& first = in.operands[0];
  const bool tells = first.is == operand::form::list;
  std::uint32_t given[lanes];
  {
    const reading<std::uint32_t> values(v, in.operands[1]);
    for (int l = 0; l < lanes; ++l) given[l] = values[l];
  }
  const reading<std::uint32_t> by(v, in.operands[2]), limits(v, in.operands[3]);
  std::uint32_t got[lanes] = {}, inside = 0;
  each_lane(v.mask, [&](int l) {
    const int clamp = limits[l] & 31, segment = limits[l] >> 8 & 31, distance = by[l] & 31;
    const int highest = (l & segment) | (clamp & ~segment), lowest = l & segment;
    int from = l;
    bool in_range = false;
    switch (in.choice) {
      case from_below:
        from = l - distance, in_range = from >= highest;
        break;
      case from_above:
        from = l + distance, in_range = from <= highest;
        break;
      case crosswise:
        from = l ^ distance, in_range = from <= highest;
        break;
      default:
        from = lowest | (distance & ~segment), in_range = from <= highest;
    }
    if (!in_range) from = l;
    if (!has_lane(v.mask, from)) {
      v.report(l, 20, "a shuffle reads lane " + std::to_string(from) + ", which takes no part");
      from = l;
    }
    inside |= std::uint32_t{in_range} << l;
    got[l] = given[from];
  });
  writing<std::uint32_t> out(v, tells ? first.all[0] : first);
  each_lane(v.mask, [&](int l) { out.set(l, got[l]); });
  if (tells) set_predicate(v, first.all[1], inside);
}
void ballot(warp_view& v, const instruction& in) {
  const std::uint32_t votes = predicate(v, in.operands[1]) & v.mask;
  writing<std::uint32_t> out(v, in.operands[0]);
  each_lane(v.mask, [&](int l) { out.set(l, votes); });
}
template <bool All>
void vote(warp_view& v, const instruction& in) {
  const std::uint32_t votes = predicate(v, in.operands[1]) & v.mask;
  set_predicate(v, in.operands[0], (All ? votes == v.mask : votes != 0) ? all_lanes : 0);
}
void meet(warp_view& v, const instruction&) { ++v.own->seen[static_cast<std::size_t>(v.own->number)]; }

}  // namespace

bool decode_warp(instruction& in, const opcode& w) {
  if (w[0] == "shfl") {
    in.goes = flow::warp;
    in.choice = says(w, "up") ? from_below : says(w, "down") ? from_above : says(w, "bfly") ? crosswise : from_lane;
    return only(w, {"sync", "up", "down", "bfly", "idx"}) && says(w, "sync") && in.of.bytes == 4 && run_by(in, shuffle);
  }
  if (w[0] == "vote") {
    in.goes = flow::warp;
    if (!says(w, "sync") || !only(w, {"sync", "all", "any", "ballot"})) return false;
    return run_by(in, says(w, "ballot") ? ballot : says(w, "all") ? vote<true> : vote<false>);
  }
  if (w[0] == "bar" && says(w, "warp")) {
    in.goes = flow::warp;
    return only(w, {"warp", "sync"}) && run_by(in, meet);
  }
  return false;
}

}  // namespace device
