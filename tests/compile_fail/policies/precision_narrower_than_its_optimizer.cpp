// expect: weft: a precision's
// shows: in_policy<mine>
// expect 1: optimizer computes in master, which is double where compute and gradient are double, and float where both are float, bf16 or fp16: change one of them
// expect 2: optimizer computes in master, which is double where compute and gradient are double, and float where both are float, bf16 or fp16: change one of them
// expect 3: moments are kept in its master type, or in bf16 beside float master weights: leave moment out, or write using moment = bf16;
// expect 4: moments are kept in its master type, or in bf16 beside float master weights: leave moment out, or write using moment = bf16;
#include <weft/weft.hpp>
using namespace weft;

struct mine {
  static constexpr std::string_view name = "mine";
  using reduce = fp16;
#ifdef WRONG
#if WRONG == 1
  using compute = float;
  using gradient = float;
  using master = bf16;
#elif WRONG == 2
  using compute = double;
  using gradient = float;
  using master = float;
#elif WRONG == 3
  using compute = float;
  using gradient = float;
  using master = float;
  using moment = fp16;
#elif WRONG == 4
  using compute = double;
  using gradient = double;
  using master = double;
  using moment = bf16;
#endif
#else
  using compute = bf16;
  using gradient = bf16;
  using master = float;
  using moment = bf16;
#endif
};
using s = strategy<mesh<dp>, mine>;
s::precision program() { return {}; }
