// expect: weft: this optimizer's update(share, step) doesn't take a share of this precision
#include <weft/weft.hpp>
using namespace weft;

struct descent {
  static constexpr int moments = 0;
  double lr = 0.1;
#ifdef WRONG
  void update(parameter_share<float, float>& share, const optimizer_step& step) const {
#else
  void update(auto& share, const optimizer_step& step) const {
#endif
      for (std::size_t i = 0; i < share.weight.size(); ++i) share.weight[i] -=
      float(step.lr * step.grad_scale) * share.gradient[i];
}
}
;

void program(parameter_store<cpu_backend, fp64>& store) { store.update(descent{}, {1, 0.1, 1}); }
