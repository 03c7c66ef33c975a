// Two of twelve strategies under which a run goes on: hybrid, and gpipe on three axes.
#include "resumed.hpp"

using namespace weft;

std::vector<weft_test::way> weft_test::hybrid_ways() {
  return {
      {"hybrid, dp 2 x fsdp 3", degrees{.dp = 2}.with<fsdp>(3), resumed_losses<strategy<mesh<dp, fsdp>, fp64, hybrid>>},
      {"zero3, gpipe, dp 2 x tp 2 x pp 2",
       {.dp = 2, .tp = 2, .pp = 2},
       resumed_losses<strategy<mesh<dp, tp, pp>, fp64, zero3, gpipe>>}};
}

TEST_CASE("a run goes on from what other strategies saved: hybrid, and gpipe on three axes") {
  weft_test::check_resumed(weft_test::hybrid_ways());
}
