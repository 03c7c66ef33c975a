// The communicator that compares calls obeys the laws of communicators: over one that compares nothing by itself, over
// threads, and where ranks are late.
#include <cstdint>

#include <doctest/doctest.h>

#include <weft/comm/checked.hpp>
#include <weft/comm/faulty.hpp>
#include <weft/comm/threads.hpp>
#include <weft/testing/communicator.hpp>

#include "bare.hpp"
#include "sample.hpp"

using namespace weft;
using weft_test::bare;

namespace {
constexpr int some_ranks = weft_test::sanitized ? 2 : 3;
}

TEST_CASE("it is a communicator like others, with the numbers of the one inside") {
  static_assert(communicator_policy<checked<threads>> && reduces_in_rank_order<checked<threads>>);
  if (weft_test::everything()) testing::check_communicator<bare>(3);
  testing::check_communicator<checked<bare>>(some_ranks);
  for (const int ranks : weft_test::sampled_ranks({1, 2, 3, 4})) testing::check_communicator<checked<threads>>(ranks);
  if (weft_test::everything()) testing::check_communicator<checked<threads>>(8);  // for each operation 56 messages
}

namespace {
struct late {
  static planned_faults of(int rank) { return {.seed = std::uint64_t(rank) + 1, .late_us = 20}; }
};
}  // namespace

TEST_CASE("no false alarm where ranks are late, and where what they tell each other is") {
  // What ranks own, and for how long, AddressSanitizer sees in the second form as well.
  if constexpr (!weft_test::addresses_sanitized) testing::check_communicator<faulty<checked<bare>, late>>(some_ranks);
  testing::check_communicator<checked<faulty<threads, late>>>(some_ranks);
}
