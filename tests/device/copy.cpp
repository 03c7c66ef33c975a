// cp.async: copies into shared memory that land when they are waited for, and not before. Invariant: until then the
// bytes have no value.
#include "families.hpp"
#include "memory.hpp"

namespace device {
namespace {

void land(warp_view& v, const late_copy& c) {
  const int at = std::exchange(v.at, c.at);
  std::uint8_t bytes[16] = {};
  if (c.read)
    std::memcpy(bytes, v.device->memory_for(v, space::global, c.from, c.bytes, c.lane, reads),
                static_cast<std::size_t>(c.read));
  std::memcpy(v.device->memory_for(v, space::shared, c.to, c.bytes, c.lane, writes), bytes,
              static_cast<std::size_t>(c.bytes));
  v.at = at;
}
void begin(warp_view& v, const instruction& in) {
  const lane_addresses to(v, in.operands[0]), from(v, in.operands[1]);
  const int bytes = static_cast<int>(in.operands[2].value);
  static const operand none;
  const bool partly = in.operands.size() > 3;
  const reading<std::uint32_t> read(v, partly ? in.operands[3] : none);
  std::uint32_t reading_lanes = 0;
  each_lane(v.mask, [&](int l) { reading_lanes |= partly && read[l] == 0 ? 0 : 1u << l; });
  v.device->count(space::global, from.of, reading_lanes, bytes, reads);
  v.device->count(space::shared, to.of, v.mask, bytes, writes);
  each_lane(v.mask, [&](int l) {
    late_copy c{l, v.own->copy_group[l], v.at, to.of[l], from.of[l], bytes, bytes};
    if (partly) c.read = static_cast<int>(std::min(read[l], static_cast<std::uint32_t>(bytes)));
    v.device->memory_for(v, space::shared, c.to, bytes, l, writes | unfinished);
    v.own->copies.push_back(c);
  });
}
void end_group(warp_view& v, const instruction&) {
  each_lane(v.mask, [&](int l) { ++v.own->copy_group[l]; });
}
void wait(warp_view& v, const instruction& in) {
  std::vector<late_copy> left;
  for (const late_copy& c : v.own->copies)
    if (has_lane(v.mask, c.lane) && (in.number < 0 || c.group < v.own->copy_group[c.lane] - in.number))
      land(v, c);
    else
      left.push_back(c);
  v.own->copies = std::move(left);
}

}  // namespace

bool decode_copy(instruction& in, const opcode& w) {
  if (w[0] != "cp" || w.size() < 3 || w[1] != "async") return false;
  if (w[2] == "commit_group") return run_by(in, end_group);
  if (w[2] == "wait_all") return in.number = -1, run_by(in, wait);
  if (w[2] == "wait_group") return in.number = static_cast<int>(in.operands[0].value), run_by(in, wait);
  if (!only(w, {"async", "ca", "cg", "shared", "shared::cta", "global"}) || in.operands.size() > 4) return false;
  if (in.operands.size() == 4 && in.operands[3].is == operand::form::in_register && in.operands[3].bytes == 0)
    return false;
  const std::int64_t bytes = in.operands[2].value;
  return (bytes == 16 || (says(w, "ca") && (bytes == 4 || bytes == 8))) && run_by(in, begin);
}

}  // namespace device
