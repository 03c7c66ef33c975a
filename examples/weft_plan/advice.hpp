// What would help where nothing fits. Invariant: what is advised was planned, and fits.
#pragma once

#include "search.hpp"

namespace weft_plan {

/// The loss in chunks, under the strategy that takes least as it is; more ranks, up to 16 times as many, each with as
/// many sequences, under zero3 and full recomputation; a shorter sequence, or prompt, of down to 256 tokens, under that
/// strategy too. Empty where none helps.
std::vector<advice> advice_for(const answers&, const asked_model&, const question&);

}  // namespace weft_plan
