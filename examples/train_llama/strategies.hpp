// The strategies that the program holds, each a type with a name.
#pragma once

#include <weft/policy/strategy.hpp>

#include "settings.hpp"

namespace train_llama {

template <class S>
std::string strategy_name() {
  settings s;
  s.sharding = S::sharding::name, s.precision = S::precision::name, s.checkpointing = S::checkpointing::name;
  s.sequence_parallel = S::sequence_parallel;
  return name_of(s);
}

/// Calls f.operator()<S>() for every strategy of one precision; of More, too, such as a backend.
template <class Precision, class... More, class F>
void each_strategy(F&& f) {
  using namespace weft;
  const auto add = [&]<class Sharding, class Checkpointing, class... Sequence>() {
    f.template operator()<strategy<mesh<dp, pp, tp>, Sharding, Precision, Checkpointing, Sequence..., More...>>();
  };
  const auto with = [&]<class Sharding>() {
    add.template operator()<Sharding, checkpoint_none>();
    add.template operator()<Sharding, checkpoint_none, sequence_parallel>();
    add.template operator()<Sharding, checkpoint_selective>();
    add.template operator()<Sharding, checkpoint_selective, sequence_parallel>();
    add.template operator()<Sharding, checkpoint_full>();
    add.template operator()<Sharding, checkpoint_full, sequence_parallel>();
  };
  with.template operator()<zero3>();
  with.template operator()<zero2>();
  with.template operator()<zero1>();
  with.template operator()<replicated>();
}

}  // namespace train_llama
