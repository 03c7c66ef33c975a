// expect: weft: paced<C, Links> asks Links for the speed of each group: static link_speed of(std::string_view group)
#include <weft/comm/paced.hpp>
#include <weft/weft.hpp>
using namespace weft;

struct far_apart {
#ifdef WRONG
#if WRONG == 1
  static constexpr double of(std::string_view) { return 30e3; }
#elif WRONG == 2
  link_speed of(std::string_view) const { return {30e3}; }
#endif
#else
  static constexpr link_speed of(std::string_view) { return {30e3}; }
#endif
};

void program() {
  launch<strategy<mesh<dp>, paced<threads, far_apart>>>({.dp = 2}, [](context&) {});
}
