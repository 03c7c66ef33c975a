// expect: weft: a precision's optimizer computes in master, which is double where compute and gradient are double, and float where both are float, bf16 or fp16: change one of them
// shows: in_policy<mine>
#include <weft/weft.hpp>
using namespace weft;

struct mine {
  static constexpr std::string_view name = "mine";
#ifdef WRONG
#if WRONG == 1
  using compute = float;
  using gradient = float;
  using master = bf16;
#elif WRONG == 2
  using compute = double;
  using gradient = float;
  using master = float;
#endif
#else
  using compute = bf16;
  using gradient = bf16;
  using master = float;
#endif
  using reduce = fp16;
};
using s = strategy<mesh<dp>, mine>;
s::precision program() { return {}; }
