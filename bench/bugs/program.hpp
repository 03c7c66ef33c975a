// What the Weft programs of bench/bugs share: their numbers, and how they say what happened. The same line of JSON as
// report.py's ends each: {"numbers": [x]}, or {"refused": {...}} when the library threw.
#pragma once

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <weft/weft.hpp>

namespace bugs {
using namespace weft;

/// The numbers of tensor `seed`, by global index: eighths between -11/8 and 11/8, the same as report.py's data().
inline auto data(std::int64_t seed) {
  return [=](std::int64_t i) { return double((37 * i + 11 * seed) % 23 - 11) / 8; };
}
/// Which of 3 experts each token is sent to, as ones and zeros [batch, seq, expert]; report.py's chosen().
inline double chosen(std::int64_t i) {
  const std::int64_t token = i / 3, expert = i % 3;
  return expert == token * token % 7 % 3 ? 1 : 0;
}
/// The right next token of each of a vocabulary of 8; report.py's targets().
inline double target(std::int64_t i) { return double(5 * i % 8); }
/// Which of 8 tokens count: all of the first half, one of the second; report.py's counted().
inline double counted(std::int64_t i) { return i <= 4 ? 1 : 0; }

/// Runs program(ctx) -> a scalar tensor on every rank of a mesh, and prints its number: each rank's, where they differ.
template <class Mesh, class F>
int run(const degrees& ranks, F program) {
  std::vector<double> numbers(static_cast<std::size_t>(ranks.product()));
  try {
    launch<strategy<Mesh>>(ranks, [&](context& ctx) {
      numbers[static_cast<std::size_t>(ctx.rank().here())] = double(item(program(ctx)));
    });
  } catch (const failure& e) {
    std::string says;
    for (const char* c = e.what(); *c; ++c) says += *c == '"' ? '\'' : *c == '\n' ? ' ' : *c;
    std::printf("{\"refused\": {\"phase\": \"run\", \"error\": \"weft::failure\", \"says\": \"%s\"}}\n", says.c_str());
    return 0;
  }
  std::string list;
  for (const double x : std::set<double>(numbers.begin(), numbers.end())) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.9g", list.empty() ? "" : ", ", x);
    list += text;
  }
  std::printf("{\"numbers\": [%s]}\n", list.c_str());
  return 0;
}
}  // namespace bugs
