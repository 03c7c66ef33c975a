// Atomic operations, lane by lane in their order. Invariant: two of them on one place are no race.
#include "families.hpp"
#include "memory.hpp"

namespace device {
namespace {

struct op_exchange {
  template <class T>
  static T of(T, T b) {
    return b;
  }
};
template <class T, class Op>
void atomic_operation(warp_view& v, const instruction& in) {
  const std::size_t memory = in.choice ? 0 : 1;  // red has no output
  const lane_addresses at(v, in.operands[memory]);
  const reading<T> by(v, in.operands[memory + 1]);
  static const operand none;
  writing<T> to(v, in.choice ? none : in.operands[0]);
  v.device->count(in.in, at.of, v.mask, sizeof(T), reads | writes);
  each_lane(v.mask, [&](int l) {
    std::uint8_t* const place = v.device->memory_for(v, in.in, at.of[l], sizeof(T), l, reads | writes | atomic);
    T old;
    std::memcpy(&old, place, sizeof(T));
    const T fresh = Op::of(old, by[l]);
    std::memcpy(place, &fresh, sizeof(T));
    to.set(l, old);
  });
}
template <class T>
void compare_and_swap(warp_view& v, const instruction& in) {
  const lane_addresses at(v, in.operands[1]);
  const reading<T> expected(v, in.operands[2]), wanted(v, in.operands[3]);
  writing<T> to(v, in.operands[0]);
  v.device->count(in.in, at.of, v.mask, sizeof(T), reads | writes);
  each_lane(v.mask, [&](int l) {
    std::uint8_t* const place = v.device->memory_for(v, in.in, at.of[l], sizeof(T), l, reads | writes | atomic);
    T old;
    std::memcpy(&old, place, sizeof(T));
    const T fresh = old == expected[l] ? wanted[l] : old;
    std::memcpy(place, &fresh, sizeof(T));
    to.set(l, old);
  });
}
template <class Op>
step integers(type t) {
  return t.bytes < 4 ? nullptr : of_integer(t, []<class T>(T) -> step { return atomic_operation<T, Op>; });
}

}  // namespace

bool decode_atomic(instruction& in, const opcode& w) {
  if (w[0] != "atom" && w[0] != "red") return false;
  in.choice = w[0] == "red";
  for (std::size_t i = 1; i < w.size(); ++i) {  // where and how strong it is; then what it does, and on which type
    const std::string_view word = w[i];
    if (word == "global" || word == "shared" || word == "shared::cta" || word == "relaxed" || word == "acquire" ||
        word == "release" || word == "acq_rel" || word == "cta" || word == "gpu" || word == "sys")
      continue;
    if (i + 2 != w.size()) return false;
    if (word == "add")
      return run_by(in, is_integer(in.of) ? integers<op_add>(in.of) : of_float(in.of, []<class T>(T) -> step {
                      return atomic_operation<T, op_add>;
                    }));
    if (word == "min") return run_by(in, integers<op_min>(in.of));
    if (word == "max") return run_by(in, integers<op_max>(in.of));
    if (word == "and") return run_by(in, integers<op_and>(in.of));
    if (word == "or") return run_by(in, integers<op_or>(in.of));
    if (word == "xor") return run_by(in, integers<op_xor>(in.of));
    if (word == "exch") return run_by(in, integers<op_exchange>(in.of));
    if (word == "cas")
      return run_by(in, in.of.bytes == 4   ? compare_and_swap<std::uint32_t>
                        : in.of.bytes == 8 ? compare_and_swap<std::uint64_t>
                                           : nullptr);
    return false;
  }
  return false;
}

}  // namespace device
