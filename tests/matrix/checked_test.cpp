// Cells of the matrix whose ranks compare what they call: no false alarm, and one rank's numbers.
#include <doctest/doctest.h>

#include <weft/comm/checked.hpp>

#include "matrix/cell.hpp"

namespace {

using namespace matrix;

template <class... Policies>
using over = strategy<Policies..., fp32, checked<threads>>;

template <class S>
void runs(const degrees& along) {
  const std::int64_t rows = rows_for(along);
  const trained serial = train<llama<strategy<mesh<>, fp32>>>({}, rows);
  for (const bool check : {false, true}) {
    const trained parallel = train<llama<S>>(along, rows, check);
    const deviation off = compare(serial, parallel);
    CAPTURE(off.loss);
    CAPTURE(off.first);
    CAPTURE(off.last);
    CHECK(off.within(tolerance_of<fp32>));
  }
}

}  // namespace

TEST_CASE("zero3, full recomputation, a sharded sequence and a pipeline: calls are compared without a false alarm") {
  runs<over<mesh<pp, dp, tp>, zero3, checkpoint_full, sequence_parallel>>({.dp = 2, .tp = 2, .pp = 2});
}

TEST_CASE("hybrid and selective recomputation: calls are compared without a false alarm") {
  runs<over<mesh<dp, fsdp, tp>, hybrid, checkpoint_selective>>(degrees{.dp = 2, .tp = 2}.with<fsdp>(2));
}

TEST_CASE("two stages a rank in both directions: calls are compared without a false alarm") {
  runs<over<mesh<pp, dp>, zero1, zbv>>({.dp = 2, .pp = 2});
}
