// launch_options.check reaches the communicator inside a decorator: where that has its ranks' calls compared by
// messages, so has the decorated one, and where it isn't asked to, neither has.
#include <string>

#include <doctest/doctest.h>

#include <weft/comm/faulty.hpp>
#include <weft/comm/paced.hpp>
#include <weft/comm/traced.hpp>
#include <weft/parallel/launch.hpp>

#include "../matrix/compared_threads.hpp"
#include "watch.hpp"

using namespace weft;

namespace {

struct near {
  static constexpr link_speed of(std::string_view) { return {1}; }
};
struct no_faults {
  static planned_faults of(int) { return {}; }
};

// What a launch says in which rank 1 never calls what rank 0 waits for.
template <class C>
std::string said(bool check) {
  try {
    launch<strategy<mesh<dp>, C>>({.dp = 2},
                                  [](context& ctx) {
                                    float x = 1;
                                    if (ctx.rank() == 0)
                                      ctx.world.all_reduce(&x, &x, 1, dtype::f32, reduction::sum, {"a loss"}).wait();
                                  },
                                  {.check = check});
  } catch (const failure& e) {
    return e.what();
  }
  return "nothing";
}

template <class C>
void check_told_by_both() {
  // The words of `checked`, and those of threads.
  const std::string waits = "rank 0 waits for all_reduce(1 fp32, sum) of group 'world' for a loss";
  CHECK(said<C>(true).find("No rank of these can go on: " + waits) == 0);
  CHECK(said<C>(false).find("No rank can go on: " + waits) == 0);
}

using inner = matrix::compared_threads;
static_assert(!weft::detail::launches_checked<threads> && !weft::detail::launches_checked<traced<threads>>);

}  // namespace

TEST_CASE("launch_options.check compares the calls of what is traced, paced and faulty as it does those of C") {
  const watchdog guard("decorated launches", 300);
  inner::by_messages = true;
  check_told_by_both<inner>();
  check_told_by_both<traced<inner>>();
  check_told_by_both<paced<inner, near, virtual_clock>>();
  check_told_by_both<faulty<inner, no_faults>>();
  check_told_by_both<traced<faulty<inner, no_faults>>>();
  inner::by_messages = false;
}
