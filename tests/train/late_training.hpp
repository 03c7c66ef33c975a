// Training on a queue that runs behind its host, beside the same on the CPU's own. Invariant: what is compared are
// bits.
#pragma once

#include "../backend/late_backend.hpp"
#include "small_training.hpp"

namespace weft_test {

/// The same bits on every rank, and no wait of the host but the one that reads what became of a step.
template <template <class> class Model, class... Policies, class Config, class Optimizer = weft::adamw>
void check_late(const weft::degrees& mesh, const Config& config, const Optimizer& optimizer = {}, int skipped = 0) {
  const auto now = train<Model<weft::strategy<Policies...>>>(mesh, config, optimizer);
  const auto late = train<Model<weft::strategy<Policies..., late_backend>>>(mesh, config, optimizer);
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    CAPTURE(rank);
    REQUIRE(now[rank].bits.size() > 1000);
    CHECK((now[rank] == late[rank]));
    CHECK(now[rank].skipped == skipped);
    CHECK(late[rank].waits == steps);
    CHECK(late[rank].behind > 200);  // a step as a whole
  }
}

}  // namespace weft_test
