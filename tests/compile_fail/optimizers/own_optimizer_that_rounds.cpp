// expect: weft: this precision keeps moments in bf16, and an optimizer that updates its share on the host can't round them: write it of the backend's kernels, with on_every_backend, or take a precision without moment, as bf16_mixed
#include <weft/weft.hpp>
using namespace weft;

struct momentum {
  static constexpr int moments = 1;
  static constexpr bool rounds_moments = true;
  double lr = 0.1;
  void update(auto& share, const optimizer_step& step) const {
    for (std::size_t i = 0; i < share.weight.size(); ++i)
      share.weight[i] -= float(step.lr) * (share.moments[0][i] += share.gradient[i]);
  }
};

#ifdef WRONG
using precision = bf16_moments;
#else
using precision = bf16_mixed;
#endif

void program(parameter_store<cpu_backend, precision>& store) { store.update(momentum{}, optimizer_step{1, 0.1, 1.0}); }
