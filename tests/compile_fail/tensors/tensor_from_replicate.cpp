// expect: weft: a replicate tensor isn't an invariant one, since its gradient is pending: declare this tensor replicate<axis> too, or with auto
#include <weft/weft.hpp>
using namespace weft;

using kept = tensor<float, dims<hidden>, replicate<tp>>;
using invariant_one = tensor<float, dims<hidden>>;

auto program(const tensor<float, dims<hidden>, shard<hidden, tp>>& x) {
#ifdef WRONG
  const invariant_one y = all_gather<tp>(x);
#else
  const kept y = all_gather<tp>(x);
#endif
  return y;
}
