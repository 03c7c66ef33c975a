// cvt: between integers, floating numbers and the types of 16 bits. Invariant: rounded once, as the opcode says.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

template <std::floating_point T>
T to_integer(T x, std::uint8_t how) {
  return how == to_zero ? std::trunc(x) : how == down ? std::floor(x) : how == up ? std::ceil(x) : std::nearbyint(x);
}

template <class To, class From>
To converted(From x, const instruction& in) {
  if constexpr (std::integral<To> && std::integral<From>) {
    if (in.saturates) {
      using limits = std::numeric_limits<To>;
      if (std::cmp_less(x, limits::min())) return limits::min();
      if (std::cmp_greater(x, limits::max())) return limits::max();
    }
    return static_cast<To>(x);
  } else if constexpr (std::integral<To>) {
    using limits = std::numeric_limits<To>;
    const auto wide = static_cast<double>(static_cast<std::conditional_t<half<From>, float, From>>(x));
    if (std::isnan(wide)) return sizeof(To) == 8 ? static_cast<To>(std::uint64_t{1} << 63) : To(0);
    const double whole = to_integer(wide, in.rounding);
    if (whole <= static_cast<double>(limits::min())) return limits::min();
    if (whole >= static_cast<double>(limits::max())) return limits::max();
    return static_cast<To>(whole);
  } else if constexpr (half<From> || half<To>) {
    auto middle = static_cast<float>(x);
    if (in.saturates) middle = saturated(middle);
    return static_cast<To>(middle);
  } else {
    const To out = static_cast<To>(x);
    return in.saturates ? saturated(out) : out;
  }
}
template <class To, class From>
void convert(warp_view& v, const instruction& in) {
  // Integers are rounded into floats as the host does, in its mode.
  const rounded how(std::integral<To> ? std::uint8_t{nearest} : in.rounding);
  map_lanes<To, From>(v, in, [&](From x) { return converted<To, From>(x, in); });
}
template <std::floating_point T>
void to_whole(warp_view& v, const instruction& in) {  // cvt.rni.f32.f32
  map_lanes<T, T>(v, in, [&](T x) {
    const T whole = to_integer(x, in.rounding);
    return in.saturates ? saturated(whole) : whole;
  });
}
template <class T>
void pair(warp_view& v, const instruction& in) {  // two floats into one register, the first above
  map_lanes<std::uint32_t, float, float>(
      v, in, [](float high, float low) { return std::uint32_t{T(high).bits} << 16 | T(low).bits; });
}

template <class F>
step of_any(type t, F make) {
  if (is_integer(t) && t.bytes == 1) return t.is == kind::s ? make(std::int8_t()) : make(std::uint8_t());
  if (is_integer(t)) return of_integer(t, make);
  if (t.is == kind::bf16) return make(bf16());
  if (t.is == kind::f16) return make(f16());
  return of_float(t, make);
}

}  // namespace

bool decode_conversion(instruction& in, const opcode& w) {
  if (w[0] != "cvt" || in.flushes || in.from.is == kind::none) return false;
  if (!only(w, {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "sat"})) return false;
  if (in.of.is == kind::bf16x2) return in.rounding == nearest && run_by(in, pair<bf16>);
  if (in.of.is == kind::f16x2) return in.rounding == nearest && run_by(in, pair<f16>);
  const bool whole = says(w, "rni") || says(w, "rzi") || says(w, "rmi") || says(w, "rpi");
  if (whole && in.of == in.from) return run_by(in, of_float(in.of, []<class T>(T) -> step { return to_whole<T>; }));
  if ((in.of.is == kind::bf16 || in.of.is == kind::f16) && (in.rounding != nearest || !is_float(in.from, 4)))
    return false;  // through a float they would be rounded twice
  return run_by(in, of_any(in.of, [&]<class To>(To) -> step {
                  return of_any(in.from, []<class From>(From) -> step { return convert<To, From>; });
                }));
}

}  // namespace device
