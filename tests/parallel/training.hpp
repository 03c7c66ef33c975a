// weft/testing/strategy.hpp as doctest says it: trains a small model for a few steps under a strategy, and compares
// what must not depend on it.
#pragma once

#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/testing/strategy.hpp>
#include <weft/weft.hpp>

namespace weft_test {

using output = weft::testing::training_output;
using plan = weft::testing::training_plan;
using task = weft::testing::training_task;
using weft::testing::train;
using weft::testing::train_model;

/// Fails the test with each disagreement.
inline void check_equal(const output& serial, const output& parallel, double loss, double gradient) {
  const auto wrong = weft::testing::disagreements(serial, parallel, loss, gradient);
  for (const std::string& line : wrong) FAIL_CHECK(line);
  CHECK(wrong.empty());
}

}  // namespace weft_test
