// expect: weft: an optimizer of one's own updates its share on the host, and this backend's weights are not there
#include <weft/plan/rank.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct descent {
  static constexpr int moments = 0;
  double lr = 0.1;
  void update(auto& share, const optimizer_step& step) const {
    for (std::size_t i = 0; i < share.weight.size(); ++i) share.weight[i] -= float(step.lr) * share.gradient[i];
  }
};

#ifdef WRONG
using backend = planned_backend;
#else
using backend = cpu_backend;
#endif

void program(parameter_store<backend, fp32>& store) { store.update(descent{}, optimizer_step{}); }
