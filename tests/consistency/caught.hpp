// A program that is wrong where no type can see it: silent without launch_options.check, one sentence with it.
#pragma once

#include <regex>
#include <string>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "comm/watch.hpp"

namespace weft_test {

template <class S, class F>
std::string message_of(const weft::degrees& along, const F& program, bool check) {
  const watchdog guard("a program whose ranks hold different numbers", 300);
  try {
    weft::launch<S>(along, program, {.check = check});
  } catch (const weft::failure& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Nobody notices the program's mistake, and check says `sentence`, or begins with it. LINE in it is a line of any
/// file.
template <class S, class F>
void caught(const weft::degrees& along, const F& program, const std::string& sentence) {
  CHECK(message_of<S>(along, program, false) == "nothing was thrown");
  std::string said = message_of<S>(along, program, true);
  if (sentence.find("LINE") != std::string::npos)
    said = std::regex_replace(said, std::regex("[a-z_0-9]+[.][ch]pp:[0-9]+"), "LINE");
  CHECK(said.substr(0, sentence.size()) == sentence);
  const std::string way_out = ". Look for what depends on the rank: a seed, a branch, a divisor, a file";
  CHECK((said.size() > way_out.size() && said.substr(said.size() - way_out.size()) == way_out));
}
/// Another path of one rank: noticed with and without check.
template <class S, class F>
void caught_anyway(const weft::degrees& along, const F& program, const std::string& part) {
  for (const bool check : {false, true}) {
    const std::string said = message_of<S>(along, program, check);
    INFO(said);
    CHECK(said.find(part) != std::string::npos);
  }
}
/// Right programs pass.
template <class S, class F>
void passes(const weft::degrees& along, const F& program) {
  CHECK(message_of<S>(along, program, true) == "nothing was thrown");
}

}  // namespace weft_test
