// Two of twelve strategies under which a run goes on: zero1 and zero2.
#include "resumed.hpp"

using namespace weft;

std::vector<weft_test::way> weft_test::sharded_ways() {
  return {{"zero1, dp 3", {.dp = 3}, resumed_losses<strategy<mesh<dp>, fp64, zero1>>},
          {"zero2, dp 4", {.dp = 4}, resumed_losses<strategy<mesh<dp>, fp64, zero2>>}};
}

TEST_CASE("a run goes on from what other strategies saved: zero1 and zero2") {
  weft_test::check_resumed(weft_test::sharded_ways());
}
