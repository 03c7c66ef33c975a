// Loads and stores, of 1 to 16 bytes a lane. Invariant: volatile and relaxed ones are as atomic as atomic operations
// are, and order nothing else.
#include "memory.hpp"

#include "families.hpp"

namespace device {
namespace {

const operand& part(const instruction& in, std::size_t of, int which) {
  return in.vector == 1 ? in.operands[of] : in.operands[of].all[static_cast<std::size_t>(which)];
}
template <class T>
void load(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[1]);
  const std::uint8_t* from[lanes];
  const int bytes = static_cast<int>(sizeof(T)) * in.vector;
  v.device->count(in.in, at.of, v.mask, bytes, reads);
  each_lane(v.mask, [&](int l) { from[l] = v.device->memory_for(v, in.in, at.of[l], bytes, l, reads | in.choice); });
  for (int i = 0; i < in.vector; ++i) {
    writing<T> to(v, part(in, 0, i));
    each_lane(v.mask, [&](int l) {
      T x;
      std::memcpy(&x, from[l] + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      to.set(l, x);
    });
  }
}
template <class T>
void store(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[0]);
  std::uint8_t* to[lanes];
  const int bytes = static_cast<int>(sizeof(T)) * in.vector;
  v.device->count(in.in, at.of, v.mask, bytes, writes);
  each_lane(v.mask, [&](int l) { to[l] = v.device->memory_for(v, in.in, at.of[l], bytes, l, writes | in.choice); });
  for (int i = 0; i < in.vector; ++i) {
    const reading<T> from(v, part(in, 1, i));
    each_lane(v.mask, [&](int l) {
      const T x = from[l];
      std::memcpy(to[l] + static_cast<std::size_t>(i) * sizeof(T), &x, sizeof(T));
    });
  }
}

}  // namespace

bool decode_memory(instruction& in, const opcode& w) {
  const bool loads = w[0] == "ld", with_sign = in.of.is == kind::s;
  if (!loads && w[0] != "st") return false;
  if (!only(w, {"global",   "shared",  "local", "param", "const",       "v2",           "v4",
                "nc",       "cs",      "cg",    "ca",    "cv",          "wt",           "wb",
                "volatile", "relaxed", "gpu",   "sys",   "shared::cta", "param::entry", "param::func"}))
    return false;
  if (says(w, "relaxed") != (says(w, "gpu") || says(w, "sys"))) return false;
  if (says(w, "volatile") || says(w, "relaxed")) in.choice = atomic;
  switch (in.of.bytes) {
    case 1:
      return run_by(in, !loads ? store<std::uint8_t> : with_sign ? load<std::int8_t> : load<std::uint8_t>);
    case 2:
      return run_by(in, !loads ? store<std::uint16_t> : with_sign ? load<std::int16_t> : load<std::uint16_t>);
    case 4:
      return run_by(in, !loads ? store<std::uint32_t> : with_sign ? load<std::int32_t> : load<std::uint32_t>);
    case 8:
      return run_by(in, loads ? load<std::uint64_t> : store<std::uint64_t>);
    default:
      return false;
  }
}

}  // namespace device
