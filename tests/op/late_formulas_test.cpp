// Formulas, and operators that are made of them, on a queue that runs behind its host: a formula is a kernel that has
// what it reads by value, so it may be gone when its turn comes.
#include "../backend/late_backend.hpp"
#include "formulas_of_all_kinds.hpp"

using namespace weft_test;

TEST_CASE("late: formulas of elements and of rows, and what is made of them") {
  long waits = 0;
  const auto late = numbers_of_formulas<late_backend>(&waits);
  CHECK(late.size() > 100);
  CHECK(late == numbers_of_formulas<cpu_backend>());
  CHECK(waits == 6);  // one for each tensor that was read
}
