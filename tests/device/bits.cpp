// Bits: logic, shifts, fields, permuted bytes; of predicates too.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

template <class T, class Op>
void logic_of(warp_view& v, const instruction& in) {
  map_lanes<T, T, T>(v, in, [](T a, T b) { return Op::of(a, b); });
}
template <class Op>
void predicates(warp_view& v, const instruction& in) {
  set_predicate(v, in.operands[0], Op::of(predicate(v, in.operands[1]), predicate(v, in.operands[2])));
}
template <class Op>
step logic_for(type t) {
  if (t.is == kind::predicate) return predicates<Op>;
  return of_integer(t, []<class T>(T) -> step { return logic_of<T, Op>; });
}
template <class T>
void inverted(warp_view& v, const instruction& in) {
  map_lanes<T, T>(v, in, [](T x) { return static_cast<T>(~x); });
}
template <class T>
void left(warp_view& v, const instruction& in) {
  map_lanes<T, T, std::uint32_t>(v, in, [](T x, std::uint32_t by) {
    using U = std::make_unsigned_t<T>;
    return by >= 8 * sizeof(T) ? T(0) : static_cast<T>(static_cast<U>(static_cast<U>(x) << by));
  });
}
template <class T>
void right(warp_view& v, const instruction& in) {
  map_lanes<T, T, std::uint32_t>(v, in, [](T x, std::uint32_t by) {
    if (by >= 8 * sizeof(T)) return std::signed_integral<T> && x < 0 ? static_cast<T>(-1) : T(0);
    return static_cast<T>(x >> by);
  });
}
// shf: two words as one of 64 bits.
template <bool Right, bool Clamp>
void funnel(warp_view& v, const instruction& in) {
  map_lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      v, in, [](std::uint32_t low, std::uint32_t high, std::uint32_t by) {
        by = Clamp ? std::min(by, 32u) : by & 31;
        const std::uint64_t both = std::uint64_t{high} << 32 | low;
        return static_cast<std::uint32_t>(Right ? both >> by : (both << by) >> 32);
      });
}
void any_logic(warp_view& v, const instruction& in) {  // lop3: a table of 8 bits
  const auto table = static_cast<std::uint32_t>(in.operands[4].value);
  map_lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      v, in, [&](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t out = 0;
        for (int i = 0; i < 8; ++i)
          if (table >> i & 1) out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
        return out;
      });
}
void permuted(warp_view& v, const instruction& in) {  // prmt
  map_lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      v, in, [](std::uint32_t a, std::uint32_t b, std::uint32_t choice) {
        const std::uint64_t both = std::uint64_t{b} << 32 | a;
        std::uint32_t out = 0;
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t which = choice >> (4 * i) & 15;
          std::uint32_t byte = both >> (8 * (which & 7)) & 255;
          if (which & 8) byte = byte & 128 ? 255 : 0;
          out |= byte << (8 * i);
        }
        return out;
      });
}
template <class T>
void field(warp_view& v, const instruction& in) {  // bfe
  map_lanes<T, T, std::uint32_t, std::uint32_t>(v, in, [](T x, std::uint32_t at, std::uint32_t count) {
    using U = std::make_unsigned_t<T>;
    constexpr std::uint32_t all = 8 * sizeof(T);
    at &= 255, count &= 255;
    const bool sign = std::signed_integral<T> && count && (static_cast<U>(x) >> std::min(at + count - 1, all - 1) & 1);
    U out = 0;
    for (std::uint32_t i = 0; i < all; ++i) {
      const bool bit = i < count && at + i < all ? (static_cast<U>(x) >> (at + i) & 1) != 0 : sign;
      out |= static_cast<U>(bit) << i;
    }
    return static_cast<T>(out);
  });
}
template <class T>
void inserted(warp_view& v, const instruction& in) {  // bfi
  map_lanes<T, T, T, std::uint32_t, std::uint32_t>(v, in, [](T a, T b, std::uint32_t at, std::uint32_t count) {
    at &= 255, count &= 255;
    for (std::uint32_t i = 0; i < count && at + i < 8 * sizeof(T); ++i)
      b = static_cast<T>((b & ~(T(1) << (at + i))) | (a >> i & 1) << (at + i));
    return b;
  });
}
template <class T>
void ones(warp_view& v, const instruction& in) {
  map_lanes<std::uint32_t, T>(v, in, [](T x) { return static_cast<std::uint32_t>(std::popcount(x)); });
}
template <class T>
void zeros_before(warp_view& v, const instruction& in) {
  map_lanes<std::uint32_t, T>(v, in, [](T x) { return static_cast<std::uint32_t>(std::countl_zero(x)); });
}
template <class T>
void reversed(warp_view& v, const instruction& in) {
  map_lanes<T, T>(v, in, [](T x) {
    T out = 0;
    for (std::size_t i = 0; i < 8 * sizeof(T); ++i) out |= (x >> i & 1) << (8 * sizeof(T) - 1 - i);
    return out;
  });
}

}  // namespace

bool decode_bits(instruction& in, const opcode& w) {
  const std::string_view name = w[0];
  const type t = in.of;
  if (name == "lop3") return only(w, {}) && run_by(in, any_logic);
  if (name == "prmt") return only(w, {}) && run_by(in, permuted);
  if (name == "shf") {
    if (!only(w, {"l", "r", "wrap", "clamp"})) return false;
    const bool clamp = says(w, "clamp");
    return run_by(in, says(w, "r") ? clamp ? funnel<true, true> : funnel<true, false>
                      : clamp ? funnel<false, true>
                                   : funnel<false, false>);
  }
  if (!only(w, {})) return false;
  if (name == "and") return run_by(in, logic_for<op_and>(t));
  if (name == "or") return run_by(in, logic_for<op_or>(t));
  if (name == "xor") return run_by(in, logic_for<op_xor>(t));
  if (name == "not") {
    if (t.is == kind::predicate)
      return run_by(in, [](warp_view& v, const instruction& i) {
        set_predicate(v, i.operands[0], ~predicate(v, i.operands[1]));
      });
    return run_by(in, of_integer(t, []<class T>(T) -> step { return inverted<T>; }));
  }
  if (name == "shl") return run_by(in, of_integer(t, []<class T>(T) -> step { return left<T>; }));
  if (name == "shr") return run_by(in, of_integer(t, []<class T>(T) -> step { return right<T>; }));
  if (name == "bfe") return run_by(in, of_integer(t, []<class T>(T) -> step { return field<T>; }));
  if (name == "bfi") return run_by(in, t.bytes == 8 ? inserted<std::uint64_t> : inserted<std::uint32_t>);
  if (name == "popc") return run_by(in, t.bytes == 8 ? ones<std::uint64_t> : ones<std::uint32_t>);
  if (name == "clz") return run_by(in, t.bytes == 8 ? zeros_before<std::uint64_t> : zeros_before<std::uint32_t>);
  if (name == "brev") return run_by(in, t.bytes == 8 ? reversed<std::uint64_t> : reversed<std::uint32_t>);
  return false;
}

}  // namespace device
