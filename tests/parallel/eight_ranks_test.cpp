// Five strategies on pp 2 x dp 2 x tp 2: what all ranks do at once, of every kind of sharding, schedule and
// recomputation. Small enough for ThreadSanitizer, which every run of the tests asks here whether threads share what
// they shouldn't.
#include <doctest/doctest.h>

#include <weft/testing/strategy.hpp>

namespace {
using namespace weft;

// Each a step of its own and one on what the first left.
template <class... Policies>
void check() {
  testing::check_strategy<strategy<mesh<pp, dp, tp>, Policies...>>(
      {.dp = 2, .tp = 2, .pp = 2}, {{.batch = 4, .seq = 8, .steps = 2, .micro_batches = 2}});
}
}  // namespace

TEST_CASE("replicated, 1F1B") { check<replicated, fp32>(); }
TEST_CASE("zero1, GPipe, full recomputation") { check<zero1, fp32, gpipe, checkpoint_full>(); }
TEST_CASE("zero2, interleaved, selective recomputation") { check<zero2, fp32, interleaved<2>, checkpoint_selective>(); }
TEST_CASE("zero3, ZB-H1, sequence parallelism") { check<zero3, fp32, zb_h1, sequence_parallel>(); }
TEST_CASE("zero3, ZBV, both") { check<zero3, fp32, zbv, checkpoint_full, sequence_parallel>(); }
