// expect: weft: a precision's moments are kept in its master type, or in bf16 beside float master weights: leave moment out, or write using moment = bf16;
// shows: in_policy<mine>
#include <weft/weft.hpp>
using namespace weft;

struct mine {
  static constexpr std::string_view name = "mine";
#ifdef WRONG
#if WRONG == 1
  using compute = float;
  using gradient = float;
  using master = float;
  using moment = fp16;
#elif WRONG == 2
  using compute = double;
  using gradient = double;
  using master = double;
  using moment = bf16;
#endif
#else
  using compute = float;
  using gradient = float;
  using master = float;
  using moment = bf16;
#endif
  using reduce = float;
};
using s = strategy<mesh<dp>, mine>;
s::precision program() { return {}; }
