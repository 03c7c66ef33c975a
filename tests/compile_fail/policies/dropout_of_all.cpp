// expect: weft:
// expect 1: weft: lora<rank, alpha, dropout> has a rate of dropout from 0 to below 1: std::ratio<5, 100>
// expect 2: weft: a projections policy's dropout is a rate from 0 to below 1
// expect 3: weft: this projections policy's dropout is not a static constant: write static constexpr double dropout = 0.05;
// expect 4: weft: this projections policy's dropout is not a number: write static constexpr double dropout = 0.05;
// A rate that leaves an adapter nothing, and a policy's own that is none.
#include <weft/policy/strategy.hpp>
using namespace weft;

#ifdef WRONG
#if WRONG == 1
using mine = lora<4, 8, std::ratio<100>>;
#elif WRONG == 2
struct mine : lora<4> {
  static constexpr int dropout = 5;
};
#elif WRONG == 3
struct mine : lora<4> {
  double dropout = 0.05;
};
#elif WRONG == 4
struct mine : lora<4> {
  static constexpr std::string_view dropout = "5 %";
};
#endif
#else
struct mine : lora<4, 8, std::ratio<5, 100>> {};
#endif
using s = strategy<mesh<dp>, mine>;
s::mesh program() { return {}; }
