// mov, with registers taken apart and put together; and addresses from one space into another.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

template <class T>
void move(warp_view& v, const instruction& in) {
  map_lanes<T, T>(v, in, [](T x) { return x; });
}
void move_predicate(warp_view& v, const instruction& in) {
  set_predicate(v, in.operands[0], predicate(v, in.operands[1]));
}
template <class T>
void take_apart(warp_view& v, const instruction& in) {
  std::uint64_t whole[lanes];
  {
    const reading<std::uint64_t> from(v, in.operands[1]);
    for (int l = 0; l < lanes; ++l) whole[l] = from[l];
  }
  int shift = 0;
  for (const operand& part : in.operands[0].all) {
    writing<T> to(v, part);
    each_lane(v.mask, [&](int l) { to.set(l, static_cast<T>(whole[l] >> shift)); });
    shift += static_cast<int>(8 * sizeof(T));
  }
}
template <class T>
void put_together(warp_view& v, const instruction& in) {
  std::uint64_t whole[lanes] = {};
  int shift = 0;
  for (const operand& part : in.operands[1].all) {
    const reading<T> from(v, part);
    for (int l = 0; l < lanes; ++l) whole[l] |= std::uint64_t{from[l]} << shift;
    shift += static_cast<int>(8 * sizeof(T));
  }
  if (in.of.bytes == 8) {
    writing<std::uint64_t> to(v, in.operands[0]);
    each_lane(v.mask, [&](int l) { to.set(l, whole[l]); });
  } else {
    writing<std::uint32_t> to(v, in.operands[0]);
    each_lane(v.mask, [&](int l) { to.set(l, static_cast<std::uint32_t>(whole[l])); });
  }
}
// What an address of a space becomes as one of any space, and back.
void convert_address(warp_view& v, const instruction& in) {
  std::uint64_t more = 0;
  if (in.in == space::shared) more = in.choice ? 0 - shared_window : shared_window;
  if (in.in == space::parameter) more = reinterpret_cast<std::uint64_t>(v.parameters) * (in.choice ? ~0ull : 1ull);
  map_lanes<std::uint64_t, std::uint64_t>(v, in, [&](std::uint64_t at) { return at + more; });
}

}  // namespace

bool decode_move(instruction& in, const opcode& w) {
  const type t = in.of;
  if (w[0] == "cvta") {
    in.choice = says(w, "to");
    return only(w, {"to", "global", "shared", "local", "param", "const"}) && run_by(in, convert_address);
  }
  if (w[0] != "mov" || !only(w, {})) return false;
  if (t.is == kind::predicate) return run_by(in, move_predicate);
  for (const bool apart : {true, false}) {
    const operand& parts = in.operands[apart ? 0 : 1];
    if (parts.is != operand::form::list) continue;
    const std::size_t bytes = t.bytes / parts.all.size();
    if (bytes == 2) return run_by(in, apart ? take_apart<std::uint16_t> : put_together<std::uint16_t>);
    if (bytes == 4) return run_by(in, apart ? take_apart<std::uint32_t> : put_together<std::uint32_t>);
    return false;
  }
  switch (t.bytes) {
    case 2:
      return run_by(in, move<std::uint16_t>);
    case 4:
      return run_by(in, move<std::uint32_t>);
    case 8:
      return run_by(in, move<std::uint64_t>);
    default:
      return false;
  }
}

}  // namespace device
