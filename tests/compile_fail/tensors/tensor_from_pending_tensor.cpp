// expect: weft: a pending sum isn't a tensor of whole values, each rank holds one addend: all_reduce<axis>(x) finishes the sum
// shows: pending_sum_over<weft::tp>
// However a tensor is initialised, assigned, passed or returned: a pending sum never becomes whole by it.
#include <optional>

#include <weft/weft.hpp>
using namespace weft;

using pending = tensor<float, dims<batch, hidden>, partial<tp>>;
using whole = tensor<float, dims<batch, hidden>>;

whole doubled(whole x);

#ifdef WRONG
whole program([[maybe_unused]] const pending& x) {
#if WRONG == 1
  return whole(x);
#elif WRONG == 2
  return whole{x};
#elif WRONG == 3
  return static_cast<whole>(x);
#elif WRONG == 4
  return x;
#elif WRONG == 5
  whole y = x;
  return y;
#elif WRONG == 6
  std::vector<whole> several;
  several.emplace_back(x);
  return several[0];
#elif WRONG == 7
  std::optional<whole> maybe = x;
  return *maybe;
#elif WRONG == 8
  std::optional<whole> maybe;
  maybe.emplace(x);
  return *maybe;
#elif WRONG == 9
  return doubled(x);
#elif WRONG == 10
  whole y;
  y = x;
  return y;
#elif WRONG == 11
  return whole(pending(x));
#elif WRONG == 12
  whole y(bool(untyped(x).ctx) ? pending() : x);
  return y;
#elif WRONG == 13
  const auto f = [](const pending& p) -> whole { return p; };
  return f(x);
#elif WRONG == 14
  std::pair<pending, int> one{x, 1};
  std::pair<whole, int> other = one;
  return other.first;
#elif WRONG == 15
  struct module {
    whole member;
    explicit module(const pending& p) : member(p) {}
  };
  return module(x).member;
#elif WRONG == 16
  const std::vector<pending> several{x};
  const std::vector<whole> copies(several.begin(), several.end());
  return copies[0];
#endif
}
#else
whole program(const pending& x) {
  std::optional<whole> maybe = all_reduce<tp>(x);
  const whole copy(*maybe), moved(whole{copy});
  static_assert(std::is_nothrow_move_constructible_v<whole> && std::is_nothrow_move_assignable_v<whole>);
  return moved;
}
#endif
