// expect: weft:
// expect 1: weft: linear of a formula says in which operands it is linear: static constexpr linearity linear = linearity::joint, as a - b, linearity::each, as a * b, or linearity::first, as a / b
// expect 2: weft: flops of a formula are its operations an element, a number that isn't negative: static constexpr double flops = 5
// expect 3: weft: a formula is copied into the tape byte by byte: let its members be numbers only, 200 bytes at most, no const ones and no references, and give it tensors as operands
// expect 4: weft: a formula is copied into the tape byte by byte, and a backward runs later: let its members be numbers, arrays of them too, and no pointers, spans or texts; give it tensors as operands
// expect 5: weft: a formula is copied into the tape byte by byte, and a backward runs later
#include <array>

#include <weft/weft.hpp>
using namespace weft;

struct scaled {
  static constexpr std::string_view name = "scaled";
#ifdef WRONG
#if WRONG == 1
  static constexpr bool linear = true;
#elif WRONG == 2
  static constexpr std::string_view flops = "5";
#elif WRONG == 3
  const float& factor;
#elif WRONG == 4
  double scale;
  std::array<int, 2> counts;
  const float* factors;
#elif WRONG == 5
  std::span<const float> factors;
#endif
#else
  static constexpr linearity linear = linearity::joint;
  static constexpr double flops = 1;
  double factor = 2;
  std::array<int, 2> counts = {};
  bool yes = true;
#endif
  template <class T>
  T forward(T x) const {
    return 2 * x;
  }
  template <class T>
  T vjp(T dy) const {
    return 2 * dy;
  }
};

#ifdef WRONG
auto program(const tensor<float, dims<batch>>& x, const scaled& f) { return elementwise(f, x); }
#else
auto program(const tensor<float, dims<batch>, partial<tp>>& x, const scaled& f) { return elementwise(f, x); }
#endif
