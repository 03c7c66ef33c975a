// Comparisons, and choices by what they say.
#include <map>

#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

enum relation : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum combined : std::uint8_t { alone, with_and, with_or, with_xor };

template <relation R, class T>
bool holds(T a, T b) {
  if constexpr (R == eq) return a == b;
  if constexpr (R == ne) return a < b || a > b;
  if constexpr (R == lt) return a < b;
  if constexpr (R == le) return a <= b;
  if constexpr (R == gt) return a > b;
  if constexpr (R == ge) return a >= b;
  if constexpr (R == equ) return !(a < b || a > b);
  if constexpr (R == neu) return !(a == b);
  if constexpr (R == ltu) return !(a >= b);
  if constexpr (R == leu) return !(a > b);
  if constexpr (R == gtu) return !(a <= b);
  if constexpr (R == geu) return !(a < b);
  const bool unordered = !(a <= b || a > b);
  return R == num ? !unordered : unordered;
}
template <relation R, class T>
void compare(warp_view& v, const instruction& in) {
  std::uint32_t yes = 0;
  {
    const reading<T> a(v, in.operands[1]), b(v, in.operands[2]);
    each_lane(v.mask, [&](int l) { yes |= std::uint32_t{holds<R>(a[l], b[l])} << l; });
  }
  std::uint32_t no = ~yes;
  if (in.choice != alone) {
    const std::uint32_t other = predicate(v, in.operands[3]);
    const auto with = [&](std::uint32_t x) {
      return in.choice == with_and ? x & other : in.choice == with_or ? x | other : x ^ other;
    };
    yes = with(yes), no = with(no);
  }
  const operand& to = in.operands[0];
  if (to.is == operand::form::list) {
    set_predicate(v, to.all[0], yes);
    set_predicate(v, to.all[1], no);
  } else {
    set_predicate(v, to, yes);
  }
}
template <relation R>
step compare_of(type t) {
  if (is_integer(t)) return R > ge ? nullptr : of_integer(t, []<class T>(T) -> step { return compare<R, T>; });
  return of_float(t, []<class T>(T) -> step { return compare<R, T>; });
}
template <class T>
void choose(warp_view& v, const instruction& in) {
  const std::uint32_t which = predicate(v, in.operands[3]);
  const reading<T> a(v, in.operands[1]), b(v, in.operands[2]);
  writing<T> out(v, in.operands[0]);
  each_lane(v.mask, [&](int l) { out.set(l, has_lane(which, l) ? a[l] : b[l]); });
}

}  // namespace

bool decode_comparison(instruction& in, const opcode& w) {
  const type t = in.of;
  if (w[0] == "selp") {
    if (!only(w, {})) return false;
    switch (t.bytes) {
      case 2:
        return run_by(in, choose<std::uint16_t>);
      case 4:
        return run_by(in, choose<std::uint32_t>);
      case 8:
        return run_by(in, choose<std::uint64_t>);
      default:
        return false;
    }
  }
  if (w[0] != "setp" || w.size() < 3) return false;
  static const std::map<std::string_view, step (*)(type)> known{
      {"eq", compare_of<eq>},   {"ne", compare_of<ne>},   {"lt", compare_of<lt>},   {"le", compare_of<le>},
      {"gt", compare_of<gt>},   {"ge", compare_of<ge>},   {"lo", compare_of<lt>},   {"ls", compare_of<le>},
      {"hi", compare_of<gt>},   {"hs", compare_of<ge>},   {"equ", compare_of<equ>}, {"neu", compare_of<neu>},
      {"ltu", compare_of<ltu>}, {"leu", compare_of<leu>}, {"gtu", compare_of<gtu>}, {"geu", compare_of<geu>},
      {"num", compare_of<num>}, {"nan", compare_of<nan>}};
  const auto at = known.find(w[1]);
  const std::size_t combines = in.operands.size() > 3;
  if (at == known.end() || w.size() != 3 + combines) return false;
  in.choice = !combines ? alone : says(w, "and") ? with_and : says(w, "or") ? with_or : with_xor;
  return run_by(in, at->second(t));
}

}  // namespace device
