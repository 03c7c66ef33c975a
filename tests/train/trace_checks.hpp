// What a viewer asks of a trace: valid JSON, and complete events that nest on each thread.
#pragma once

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace weft_test {

struct trace_content {
  std::map<std::pair<int, int>, std::string> threads;                 // (process, thread) -> name
  std::map<std::pair<int, int>, std::vector<nlohmann::json>> events;  // complete ones
  std::map<int, std::vector<nlohmann::json>> counters;                // by process
  std::set<std::string> names;                                        // of complete events
};

/// Reads a trace and checks it as it goes.
inline trace_content read_trace(const std::string& text) {
  trace_content out;
  const auto all = nlohmann::json::parse(text);
  for (const auto& e : all.at("traceEvents")) {
    const std::string phase = e.at("ph");
    const int process = e.at("pid");
    if (phase == "M") {
      if (e.at("name") == "thread_name") out.threads[{process, e.at("tid")}] = e.at("args").at("name");
    } else if (phase == "C") {
      out.counters[process].push_back(e);
    } else {
      REQUIRE(phase == "X");
      out.events[{process, e.at("tid")}].push_back(e);
      out.names.insert(e.at("name"));
    }
  }
  for (const auto& entry : out.events) {
    const auto& thread = entry.first;
    const auto& events = entry.second;
    CAPTURE(thread.first);
    CAPTURE(thread.second);
    CHECK(out.threads.count(thread) == 1);
    struct piece {
      long long begin, end;
    };
    std::vector<piece> pieces;
    for (const auto& e : events) {
      const long long begin = std::llround(1000 * e.at("ts").get<double>()),
                      length = std::llround(1000 * e.at("dur").get<double>());
      CHECK(length >= 0);
      pieces.push_back({begin, begin + length});
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](piece a, piece b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
    std::vector<long long> open;
    for (const piece& p : pieces) {
      while (!open.empty() && open.back() <= p.begin) open.pop_back();
      CHECK((open.empty() || p.end <= open.back()));
      open.push_back(p.end);
    }
  }
  return out;
}

}  // namespace weft_test
