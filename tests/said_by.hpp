// What a function refuses, in its own words.
#pragma once

#include <string>

#include <weft/core/error.hpp>

namespace weft_test {

/// What f throws says; "nothing" where it throws no weft::failure.
template <class F>
std::string said_by(F&& f) {
  try {
    f();
  } catch (const weft::failure& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace weft_test
