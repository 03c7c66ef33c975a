// expect: weft: launch<S>(degrees, f)
// expect 1: weft: launch<S>(degrees, f) calls f(ctx) on every rank: write f as [&](context& ctx) { ... }
// expect 2: weft: launch<S>(degrees, f) calls f(ctx) on every rank
// expect 3: weft: launch<S>(degrees, f) takes a strategy: launch<strategy<mesh<dp>>>({.dp = 2}, f)
// expect 4: weft: launch<S>(degrees, f) takes how many ranks lie along each axis first: launch<S>({.dp = 2}, f), or launch<S>({}, f) for one
// expect 5: weft: launch<S>(degrees, f) calls f(ctx) on every rank
#include <weft/weft.hpp>
using namespace weft;
using S = strategy<mesh<dp>>;

void program() {
  int seen = 0;
#ifdef WRONG
#if WRONG == 1
  launch<S>({}, [](int rank) { return rank; });
#elif WRONG == 2
  launch<S>({}, [] {});
#elif WRONG == 3
  launch<mesh<dp>>({}, [](context&) {});
#elif WRONG == 4
  launch<S>([](context&) {});
#elif WRONG == 5
  launch<S>({}, [](context) {});
#endif
#else
  const auto f = [&](context& ctx) { seen += ctx.size(); };
  launch<S>({.dp = 2}, f);
  launch<S>({}, f, {.seed = 2});
#endif
}
