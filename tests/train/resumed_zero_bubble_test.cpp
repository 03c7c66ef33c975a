// Two of twelve strategies under which a run goes on: zbv and zb_h1.
#include "resumed.hpp"

using namespace weft;

std::vector<weft_test::way> weft_test::zero_bubble_ways() {
  return {{"zbv, zero1, tp 2 x pp 2", {.tp = 2, .pp = 2}, resumed_losses<strategy<mesh<tp, pp>, fp64, zero1, zbv>>},
          {"zb_h1, pp 4", {.pp = 4}, resumed_losses<strategy<mesh<pp>, fp64, zb_h1>>}};
}

TEST_CASE("a run goes on from what other strategies saved: zbv and zb_h1") {
  weft_test::check_resumed(weft_test::zero_bubble_ways());
}
