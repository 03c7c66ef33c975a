// expect: weft: checked<C
// expect 1: weft: checked<C, Limits> asks Limits how long a rank may show no sign
// expect 2: weft: checked<C> sends messages of its own, in the host's memory: it takes no communicator that has another for it, host()
#include <weft/comm/checked.hpp>
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
constexpr bool behind_queue = WRONG == 2;
struct hasty {
#if WRONG == 1
  static constexpr int stuck_s = 3;
#else
  static constexpr std::chrono::milliseconds stuck{3000};
#endif
};
#else
constexpr bool behind_queue = false;
struct hasty {
  static constexpr std::chrono::milliseconds stuck{3000};
};
#endif

template <bool Has>
struct with_host {};
template <>
struct with_host<true> {
  threads host() const;
};
struct on_a_device : comm_operations<on_a_device>, with_host<behind_queue> {
  int rank() const;
  int size() const;
  request post(const comm_call&);
  on_a_device split(int, int, const char*);
  template <class F>
  static void launch(int, F&& f) {
    on_a_device own;
    f(own);
  }
};

void program() {
  checked<on_a_device, hasty>::launch(2, [](auto& world) { world.barrier().wait(); });
}
