// What an error says, whatever was thrown. Invariant: never empty-handed: there is a sentence for what is no exception.
#pragma once

#include <weft/core/requirements.hpp>

#include <exception>
#include <string>

namespace weft::detail {

[[gnu::cold, gnu::noinline]] inline std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "it threw what is no std::exception";
  }
}

}  // namespace weft::detail
