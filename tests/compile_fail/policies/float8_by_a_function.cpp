// expect: weft: a projections policy says in_float8 as static constexpr bool in_float8 = true
#include <weft/weft.hpp>
using namespace weft;

struct own : dense {
  static constexpr std::string_view name = "own";
#ifdef WRONG
#if WRONG == 1
  static constexpr bool in_float8() { return false; }
#elif WRONG == 2
  static constexpr const char* in_float8 = "no";
#elif WRONG == 3
  bool in_float8 = true;
#endif
#else
  static constexpr bool in_float8 = false;
#endif
};

using S = strategy<mesh<dp, tp>, bf16_mixed, own>;
static_assert(!linear<S, dims<ffn>, dims<hidden>, ffn>::in_float8);
