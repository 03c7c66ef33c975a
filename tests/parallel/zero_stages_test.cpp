// ZeRO stages 1 and 2, and sharding over a part of the data-parallel ranks.
#include "parallel/equals_serial.hpp"

namespace {
using namespace weft;
template <class P> using first = strategy<mesh<dp, tp>, P, zero1>;
template <class P> using second = strategy<mesh<dp, tp>, P, zero2, sequence_parallel>;
template <class P> using nested = strategy<mesh<dp, fsdp, tp>, P, hybrid, checkpoint_full>;

template <template <class> class Strategy>
void check_hybrid(const degrees& d, int batch, int micro_batches) {
  const weft_test::task t{.batch = batch, .micro_batches = micro_batches};
  CAPTURE(d.dp);
  weft_test::check_equal(weft_test::train<Strategy<fp64>>({}, t), weft_test::train<Strategy<fp64>>(d, t), weft_test::fp64_loss,
                         weft_test::fp64_gradient);
  if constexpr (!weft_test::sanitized)
    weft_test::check_equal(weft_test::train<Strategy<fp32>>({}, t), weft_test::train<Strategy<fp32>>(d, t), weft_test::fp32_loss,
                           weft_test::fp32_gradient);
}
}  // namespace

TEST_CASE("zero1 equals one rank") { weft_test::check_meshes<first>(); }
TEST_CASE("zero2, sequence parallel, equals one rank") { weft_test::check_meshes<second>(); }
TEST_CASE("hybrid equals one rank") {
  check_hybrid<nested>(degrees{.dp = 2}.with<fsdp>(2), 8, 1);
  check_hybrid<nested>(degrees{.dp = 2}.with<fsdp>(4), 8, 2);
  check_hybrid<nested>(degrees{.dp = 2, .tp = 2}.with<fsdp>(2), 8, 1);
  check_hybrid<nested>(degrees{.dp = 1}.with<fsdp>(3), 3, 1);
}
