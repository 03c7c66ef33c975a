// Sums, products, quotients, minima of integers and floating numbers.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

struct op_high {  // the upper half of a product
  template <std::integral T>
  static T of(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      __extension__ using wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((static_cast<wide>(a) * static_cast<wide>(b)) >> 64);
    } else {
      using wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      return static_cast<T>((static_cast<wide>(a) * static_cast<wide>(b)) >> (8 * sizeof(T)));
    }
  }
};
struct op_divide {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>) {
      if (b == 0) return static_cast<T>(-1);
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return op_subtract::of(T(0), a);
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct op_remainder {
  template <std::integral T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct op_copysign {  // the sign of the first, the size of the second
  template <std::floating_point T>
  static T of(T a, T b) {
    return std::copysign(b, a);
  }
};

template <class T, class Op>
void binary(warp_view& v, const instruction& in) {
  if constexpr (std::floating_point<T>) {
    const rounded how(in.rounding);
    if (in.flushes || in.saturates) {
      map_lanes<T, T, T>(v, in, [&](T a, T b) {
        if (in.flushes)
          a = static_cast<T>(flushed(static_cast<float>(a))), b = static_cast<T>(flushed(static_cast<float>(b)));
        T x = Op::of(a, b);
        if (in.flushes) x = static_cast<T>(flushed(static_cast<float>(x)));
        return in.saturates ? saturated(x) : x;
      });
    } else {
      map_lanes<T, T, T>(v, in, [](T a, T b) { return Op::of(a, b); });
    }
  } else {
    map_lanes<T, T, T>(v, in, [](T a, T b) { return Op::of(a, b); });
  }
}
template <class Op>
step integers(type t) {
  return of_integer(t, []<class T>(T) -> step { return binary<T, Op>; });
}
template <class Op>
step floats(type t) {
  return of_float(t, []<class T>(T) -> step { return binary<T, Op>; });
}
template <class Op>
step numbers(type t) {
  return is_integer(t) ? integers<Op>(t) : floats<Op>(t);
}

template <class T>
void fused(warp_view& v, const instruction& in) {
  const rounded how(in.rounding);
  map_lanes<T, T, T, T>(v, in, [&](T a, T b, T c) {
    const T x = std::fma(a, b, c);
    return in.saturates ? saturated(x) : x;
  });
}
template <class T, class Half>  // Half: which half of the product
void multiply_add(warp_view& v, const instruction& in) {
  map_lanes<T, T, T, T>(v, in, [](T a, T b, T c) { return op_add::of(Half::of(a, b), c); });
}
template <class Half>
step multiply_add_of(type t) {
  return of_integer(t, []<class T>(T) -> step { return multiply_add<T, Half>; });
}
template <class T, class Wide, bool Add>
void wide(warp_view& v, const instruction& in) {
  if constexpr (Add)
    map_lanes<Wide, T, T, Wide>(v, in,
                                [](T a, T b, Wide c) { return op_add::of(static_cast<Wide>(Wide{a} * Wide{b}), c); });
  else
    map_lanes<Wide, T, T>(v, in, [](T a, T b) { return static_cast<Wide>(Wide{a} * Wide{b}); });
}
template <bool Add>
step wide_of(type t) {
  if (t == type{kind::u, 2}) return wide<std::uint16_t, std::uint32_t, Add>;
  if (t == type{kind::s, 2}) return wide<std::int16_t, std::int32_t, Add>;
  if (t == type{kind::u, 4}) return wide<std::uint32_t, std::uint64_t, Add>;
  if (t == type{kind::s, 4}) return wide<std::int32_t, std::int64_t, Add>;
  return nullptr;
}

}  // namespace

bool decode_arithmetic(instruction& in, const opcode& w) {
  const std::string_view name = w[0];
  const type t = in.of;
  if (in.flushes && !is_float(t, 4)) return false;
  const bool rounds = only(w, {"rn", "rz", "rm", "rp", "ftz", "sat"});
  if (name == "add") return rounds && run_by(in, numbers<op_add>(t));
  if (name == "sub") return rounds && run_by(in, numbers<op_subtract>(t));
  if (name == "div") return only(w, {"rn", "rz", "rm", "rp", "approx", "full"}) && run_by(in, numbers<op_divide>(t));
  if (name == "rem") return only(w, {}) && run_by(in, integers<op_remainder>(t));
  const bool nan = says(w, "NaN");
  if (name == "min")
    return only(w, {"NaN", "ftz"}) && run_by(in, nan ? numbers<op_with_nan<op_min>>(t) : numbers<op_min>(t));
  if (name == "max")
    return only(w, {"NaN", "ftz"}) && run_by(in, nan ? numbers<op_with_nan<op_max>>(t) : numbers<op_max>(t));
  if (name == "copysign") return only(w, {}) && run_by(in, floats<op_copysign>(t));
  if (name == "mul") {
    if (says(w, "wide")) return only(w, {"wide"}) && run_by(in, wide_of<false>(t));
    if (says(w, "hi")) return only(w, {"hi"}) && run_by(in, integers<op_high>(t));
    if (says(w, "lo")) return only(w, {"lo"}) && run_by(in, integers<op_multiply>(t));
    return rounds && run_by(in, floats<op_multiply>(t));
  }
  if (name == "mad" || name == "fma") {
    if (says(w, "wide")) return only(w, {"wide"}) && run_by(in, wide_of<true>(t));
    if (is_integer(t) && only(w, {"lo", "hi"}))
      return run_by(in, says(w, "hi") ? multiply_add_of<op_high>(t) : multiply_add_of<op_multiply>(t));
    if (in.flushes) return false;
    return rounds && run_by(in, of_float(t, []<class T>(T) -> step { return fused<T>; }));
  }
  return false;
}

}  // namespace device
