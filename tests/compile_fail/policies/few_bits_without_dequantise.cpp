// expect: weft: the strategy stores projections in few bits, and its backend has no kernel that makes numbers of them
// Weights in 4 bits on a backend of one's own, which can't read them.
#include <weft/weft.hpp>
using namespace weft;

struct mine : cpu_backend {
  template <class... Args>
  static void dequantise(queue&, const Args&...) = delete;
};

#ifdef WRONG
using S = strategy<mesh<tp>, nf4<lora<16>>, mine>;
#else
using S = strategy<mesh<tp>, lora<16>, mine>;
#endif
using projection = linear<S, dims<ffn>, dims<hidden>, ffn>;

void program(projection& p, parameter_registry& registry, context& ctx) {
  p.add_to(registry, ctx, "up", {1, {64}}, {1, {64}}, 0.02);
}
