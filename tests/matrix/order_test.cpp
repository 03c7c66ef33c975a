// What the sweep says of cells that differ in checkpointing alone.
#include <doctest/doctest.h>

#include "matrix/sweep.hpp"

TEST_CASE("matrix: a policy under which some rank holds no less of activations than under the one before is named") {
  const auto cell = [](std::vector<std::size_t> activations) {
    matrix::verdict v;
    for (const std::size_t n : activations) v.used.push_back({"", 2 * n, n, 0});
    return v;
  };
  const std::vector<std::string_view> names{"none", "selective", "full"};
  const auto all = [](int) { return true; };
  CHECK(matrix::rising_activations({cell({9, 8}), cell({7, 7}), cell({6, 3})}, names, all).empty());
  CHECK(matrix::rising_activations({cell({9, 8}), cell({7, 8}), cell({6, 3})}, names, all) ==
        "rank 1 holds 8 bytes of activations under selective, and 8 under none");
  CHECK(matrix::rising_activations({cell({9, 8}), cell({7, 7}), cell({8, 3})}, names, all) ==
        "rank 0 holds 8 bytes of activations under full, and 7 under selective");
  CHECK(matrix::rising_activations({cell({9, 8}), cell({7, 8})}, names, [](int rank) { return rank == 0; }).empty());
  CHECK(matrix::rising_activations({cell({}), cell({}), cell({})}, names, all).empty());  // refused
}

TEST_CASE("matrix: a rank has its stage's layers of each micro-batch in flight") {
  CHECK(matrix::layers_in_flight({}, 0) == 5);
  CHECK(matrix::layers_in_flight({.dp = 2, .pp = 3}, 1) == 6);  // two of five layers, three micro-batches
  CHECK(matrix::layers_in_flight({.dp = 2, .pp = 3}, 5) == 1);
  CHECK(matrix::layers_in_flight({.pp = 4}, 2) == 2);
}
