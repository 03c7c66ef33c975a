// What is said of the answers: tables for people, JSON for programs. Invariant: what is rounded is only how bytes are
// printed.
#pragma once

#include "search.hpp"

namespace weft_plan {

/// `whole`: the whole plan below each table's first row; where there is one answer in all, it stands there anyway.
std::string tables_of(const std::vector<answers>&, const asked_model&, const question&, bool whole);
/// One object with everything that was planned.
std::string json_of(const std::vector<answers>&, const asked_model&, const question&);

}  // namespace weft_plan
