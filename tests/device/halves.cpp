// Arithmetic of 16 bits, of one number and of two in a register. Invariant: rounded once, to nearest: what is computed
// in double is exact, or on the exact number's side of every number that it could be rounded to.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

template <half T>
double number_of(std::uint32_t bits) {
  T x;
  x.bits = static_cast<std::uint16_t>(bits);
  return static_cast<double>(static_cast<float>(x));
}
template <half T>
T nearest_half(double x) {
  if (!std::isfinite(x) || x == 0) return T(static_cast<float>(x));
  constexpr bool brain = std::same_as<T, bf16>;
  const int step = std::max(std::ilogb(x), brain ? -126 : -14) - (brain ? 7 : 10);
  return T(static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(x, -step)), step)));
}

struct op_fused {
  // The product is exact. A sum that isn't is made odd, so that it lies in no middle of two numbers of 16 bits.
  static double of(double a, double b, double c) {
    const double product = a * b, sum = product + c, part = sum - product;
    const double lost = (product - (sum - part)) + (c - part);
    if (!std::isfinite(sum) || lost == 0 || (std::bit_cast<std::uint64_t>(sum) & 1)) return sum;
    return std::nextafter(sum, lost > 0 ? HUGE_VAL : -HUGE_VAL);
  }
};

template <half T, bool Pair, class Op, std::size_t Inputs>
void compute(warp_view& v, const instruction& in) {
  using word = std::conditional_t<Pair, std::uint32_t, std::uint16_t>;
  const auto one = [&](auto... bits) {
    const double x = Op::of(number_of<T>(bits)...);
    return nearest_half<T>(in.saturates ? saturated(x) : x).bits;
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    map_lanes<word, decltype(static_cast<void>(I), word())...>(v, in, [&](auto... x) {
      if constexpr (Pair)
        return std::uint32_t{one(x >> 16 ...)} << 16 | one(x...);
      else
        return one(x...);
    });
  }
  (std::make_index_sequence<Inputs>());
}
template <class Op, std::size_t Inputs>
step of_halves(type t) {
  switch (t.is) {
    case kind::bf16:
      return compute<bf16, false, Op, Inputs>;
    case kind::f16:
      return compute<f16, false, Op, Inputs>;
    case kind::bf16x2:
      return compute<bf16, true, Op, Inputs>;
    case kind::f16x2:
      return compute<f16, true, Op, Inputs>;
    default:
      return nullptr;
  }
}
// The sign of one number or two: NaN keeps its bits.
template <bool Absolute>
step signs(type t) {
  const auto of = []<class T>(T) -> step {
    return [](warp_view& v, const instruction& in) {
      constexpr T sign = static_cast<T>(0x80008000u);
      map_lanes<T, T>(v, in, [](T x) { return static_cast<T>(Absolute ? x & ~sign : x ^ sign); });
    };
  };
  return t.is == kind::bf16 || t.is == kind::f16       ? of(std::uint16_t())
         : t.is == kind::bf16x2 || t.is == kind::f16x2 ? of(std::uint32_t())
                                                       : nullptr;
}

}  // namespace

bool decode_halves(instruction& in, const opcode& w) {
  const std::string_view name = w[0];
  const bool rounds = only(w, {"rn", "sat"});
  if (name == "add") return rounds && run_by(in, of_halves<op_add, 2>(in.of));
  if (name == "sub") return rounds && run_by(in, of_halves<op_subtract, 2>(in.of));
  if (name == "mul") return rounds && run_by(in, of_halves<op_multiply, 2>(in.of));
  if (name == "fma") return rounds && run_by(in, of_halves<op_fused, 3>(in.of));
  if (name == "min" || name == "max") {
    if (!only(w, {"NaN"})) return false;
    if (says(w, "NaN"))
      return run_by(
          in, name == "min" ? of_halves<op_with_nan<op_min>, 2>(in.of) : of_halves<op_with_nan<op_max>, 2>(in.of));
    return run_by(in, name == "min" ? of_halves<op_min, 2>(in.of) : of_halves<op_max, 2>(in.of));
  }
  if (name == "neg") return only(w, {}) && run_by(in, signs<false>(in.of));
  if (name == "abs") return only(w, {}) && run_by(in, signs<true>(in.of));
  return false;
}

}  // namespace device
