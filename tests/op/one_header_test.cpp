// A header of an operator is enough to call it with tensors of the default backend.
#include <doctest/doctest.h>

#include <weft/op/reduce.hpp>

TEST_CASE("an operator's header is enough to call it") {
  using namespace weft;
  const tensor<float, dims<batch>> never_made;
  CHECK_THROWS_AS(sum(silu(never_made)), failure);
}
