// expect: weft: forward of a formula makes an index or a mask, which has no gradient, and yet there is a vjp: leave out vjp, or let forward give back a T
// `int` in place of `float` would make a tensor of integers, through which no gradient comes, and vjp would never run.
#include <weft/weft.hpp>
using namespace weft;

struct positive {
  static constexpr std::string_view name = "positive";
#ifdef WRONG
#if WRONG == 1
  int forward(float x) const { return x > 0 ? static_cast<int>(x) : 0; }
#elif WRONG == 2
  bool forward(float x) const { return x > 0; }
#elif WRONG == 3
  std::int32_t forward(std::span<const float> x) const { return x[0] > 0; }
#endif
#else
  float forward(float x) const { return x > 0 ? x : 0; }
#endif
#if defined(WRONG) && WRONG == 3
  void vjp(float dy, std::span<const float>, float, std::span<float> dx) const { dx[0] = dy; }
#else
  template <class T>
  T vjp(T dy, T x) const {
    return x > 0 ? dy : 0;
  }
#endif
};

#if defined(WRONG) && WRONG == 3
auto program(const tensor<float, dims<batch, hidden>>& x) { return rowwise<hidden>(positive{}, x); }
#else
auto program(const tensor<float, dims<batch, hidden>>& x) { return elementwise(positive{}, x); }
#endif
// A formula of any numbers may be given ids: they have no gradient anyway.
auto of_ids(const tensor<std::int32_t, dims<batch, hidden>>& ids) { return max<hidden>(maximum(ids, ids)); }
