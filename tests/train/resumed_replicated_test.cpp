// Two of twelve strategies under which a run goes on: one rank, and zero3 that recomputes.
#include "resumed.hpp"

using namespace weft;

std::vector<weft_test::way> weft_test::replicated_ways() {
  return {{"one rank", {}, resumed_losses<strategy<mesh<dp>, fp64>>},
          {"zero3, dp 2 x tp 2, recomputed",
           {.dp = 2, .tp = 2},
           resumed_losses<strategy<mesh<dp, tp>, fp64, zero3, checkpoint_full>>}};
}

TEST_CASE("a run goes on from what other strategies saved: one rank, and zero3 that recomputes") {
  weft_test::check_resumed(weft_test::replicated_ways());
}
