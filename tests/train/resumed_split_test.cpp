// Two of twelve strategies under which a run goes on: sequence_parallel and shared_kv.
#include "resumed.hpp"

using namespace weft;

std::vector<weft_test::way> weft_test::split_ways() {
  return {{"sequence_parallel, zero1, dp 2 x tp 2",
           {.dp = 2, .tp = 2},
           resumed_losses<strategy<mesh<dp, tp>, fp64, zero1, sequence_parallel>>},
          {"shared_kv, zero3, tp 4", {.tp = 4}, resumed_losses<strategy<mesh<dp, tp>, fp64, zero3, shared_kv<>>>}};
}

TEST_CASE("a run goes on from what other strategies saved: sequence_parallel and shared_kv") {
  weft_test::check_resumed(weft_test::split_ways());
}
