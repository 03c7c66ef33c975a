// expect: weft: an optimizer is adamw, sgd, by_shape, or a type with 'static constexpr int moments', 'lr' and update(share, step) const: see optimizer_policy
#include <weft/weft.hpp>
using namespace weft;

struct sign_descent {
  double lr = 1e-3;
#ifdef WRONG
  int moments = 0;
#else
  static constexpr int moments = 0;
#endif
  template <class Share>
  void update(const Share& share, const optimizer_step& step) const {
    for (std::size_t i = 0; i < share.weight.size(); ++i) share.weight[i] -= step.lr * (share.gradient[i] > 0 ? 1 : -1);
  }
};

using S = strategy<mesh<dp>>;

void program(context& ctx, llama<S>& model) { trainer t(ctx, model, sign_descent{}); }
