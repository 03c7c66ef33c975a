// Two of twelve strategies under which a run goes on: one_f_one_b and interleaved.
#include "resumed.hpp"

using namespace weft;

std::vector<weft_test::way> weft_test::pipelined_ways() {
  return {{"one_f_one_b, zero2, dp 2 x pp 2",
           {.dp = 2, .pp = 2},
           resumed_losses<strategy<mesh<dp, pp>, fp64, zero2, one_f_one_b>>},
          {"interleaved, pp 2", {.pp = 2}, resumed_losses<strategy<mesh<pp>, fp64, interleaved<2>>>}};
}

TEST_CASE("a run goes on from what other strategies saved: one_f_one_b and interleaved") {
  weft_test::check_resumed(weft_test::pipelined_ways());
}
