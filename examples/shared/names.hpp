// A name that was given and isn't one of those that there are. Invariant: what is said lists the nearest ones first.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <weft/core/error.hpp>

namespace examples {

/// Levenshtein's distance.
inline std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// Throws weft::failure that lists the eight of `valid` that are nearest, unless `given` is among them.
inline void check_name(const char* what, const std::string& given, std::vector<std::string> valid) {
  if (std::find(valid.begin(), valid.end(), given) != valid.end()) return;
  std::stable_sort(valid.begin(), valid.end(),
                   [&](const auto& a, const auto& b) { return edits(given, a) < edits(given, b); });
  constexpr std::size_t few = 8;
  const std::size_t more = valid.size() > few ? valid.size() - few : 0;
  std::string list;
  for (std::size_t i = 0; i < valid.size() - more; ++i) list += (list.empty() ? "" : ", ") + valid[i];
  if (more > 0) list += " and " + std::to_string(more) + " more";
  weft::fail("there is no ", what, " called '", given, "'; there are, the nearest first: ", list);
}

}  // namespace examples
