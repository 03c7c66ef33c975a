// expect: weft: this rank's share doesn't lie in the host's memory
// expect 1: local_share_on_host(x) copies it there
// expect 2: make a tensor of other numbers there
#include <weft/weft.hpp>
using namespace weft;

struct device : cpu_backend {
  static constexpr bool host_memory = false;
};
using row = basic_tensor<float, dims<hidden>, layout<>, device>;

auto program(row& x) {
#ifdef WRONG
#if WRONG == 1
  return x.local_share()[0];
#elif WRONG == 2
  x.write_local_share([](auto numbers) { numbers[0] = 1; });
#endif
#else
  return local_share_on_host(x)[0];
#endif
}
