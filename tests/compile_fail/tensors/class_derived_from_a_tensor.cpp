// expect: final
// Operators' types are those of tensors alone: a class of one's own holds its tensor as a member.
#include <weft/weft.hpp>
using namespace weft;
using activation = tensor<float, dims<batch, hidden>>;

#ifdef WRONG
struct named : activation {
  std::string name;
};
#else
struct named {
  activation x;
  std::string name;
};
auto program(const named& y) { return silu(y.x); }
#endif
