// What a plan says of one rank: memory by category and traffic by collective, as a table and as JSON.
// Invariant: bytes are exact; what is rounded is only how they are printed.
#pragma once

#include <string>
#include <vector>

#include <weft/comm/trace_log.hpp>
#include <weft/train/memory_report.hpp>

namespace weft {

/// A rank's place in a group of this name, an axis of the mesh or the pipeline's ends.
struct planned_place {
  std::string name;
  int rank = 0, size = 1;
};

/// What one rank of a run holds and moves, in bytes.
struct rank_plan {
  int rank = 0, ranks = 1;
  std::vector<planned_place> places;
  memory_ledger memory;
  std::size_t optimizer_elsewhere = 0;  // what ctx.keep_optimizer_state_in has put beside that, at most
  std::size_t offloaded = 0;            // what a checkpointing policy has put into the host's memory, at most
  std::string peak_in;  // what the rank was busy with when it held most: "backward layer 3"; empty: nothing named
  std::vector<trace_total> collectives;
  std::string collectives_of = "a step";  // what the rank did in that time
};

namespace detail {

/// "1.25 GiB": three digits, or all bytes below 1 KiB.
[[gnu::cold, gnu::noinline]] inline std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text,
                unit == 0     ? "%.0f %s"
                : bytes < 10  ? "%.2f %s"
                : bytes < 100 ? "%.1f %s"
                              : "%.0f %s",
                bytes, units[unit]);
  return text;
}

}  // namespace detail

/// Lines for people.
[[gnu::cold]] inline std::string table_of(const rank_plan& p) {
  const auto bytes = [](auto n) { return detail::bytes_text(static_cast<double>(n)); };
  const auto line = [](const std::string& a, const std::string& b, const std::string& c) {
    char text[160];
    std::snprintf(text, sizeof text, "  %-28s %12s %12s\n", a.c_str(), b.c_str(), c.c_str());
    return std::string(text);
  };
  std::string place;
  for (const planned_place& at : p.places)
    if (at.size > 1 && at.name != "pipeline_ends")
      place +=
          (place.empty() ? " (" : ", ") + at.name + ' ' + std::to_string(at.rank) + " of " + std::to_string(at.size);
  std::string out = "rank " + std::to_string(p.rank) + " of " + std::to_string(p.ranks) + place +
                    (place.empty() ? "" : ")") + ": " + bytes(p.memory.peak_total) + " at most" +
                    (p.peak_in.empty() ? "" : ", in " + p.peak_in) + '\n';
  out += line("memory", "then", "its highest");
  for (std::size_t c = 0; c < static_cast<std::size_t>(memory_categories); ++c)
    if (p.memory.peak[c] > 0)
      out += line(std::string(memory_names[c]), bytes(p.memory.at_peak[c]), bytes(p.memory.peak[c]));
  if (p.optimizer_elsewhere > 0) out += line("optimizer's state elsewhere", "", bytes(p.optimizer_elsewhere));
  if (p.offloaded > 0) out += line("offloaded to the host", "", bytes(p.offloaded));
  out += line("scratch of kernels", "", p.memory.scratch ? bytes(*p.memory.scratch) : "not planned");
  if (!p.collectives.empty()) out += line("collectives of " + p.collectives_of, "calls", "receives");
  for (const trace_total& t : p.collectives)
    out += line(t.operation + ' ' + t.axis, std::to_string(t.calls), bytes(t.wire_bytes));
  return out;
}

/// One object, in bytes.
[[gnu::cold]] inline std::string json_of(const rank_plan& p) {
  json_writer w;
  w.begin_object().member("rank", p.rank).member("ranks", p.ranks).key("places").begin_object();
  for (const planned_place& at : p.places)
    w.key(at.name).begin_object().member("rank", at.rank).member("size", at.size).end_object();
  w.end_object().member("peak", p.memory.peak_total).member("peak_in", p.peak_in);
  w.member("reserved", p.memory.reserved);
  detail::write_bytes(w, "scratch", p.memory.scratch);
  if (p.optimizer_elsewhere > 0) w.member("optimizer_elsewhere", p.optimizer_elsewhere);
  if (p.offloaded > 0) w.member("offloaded", p.offloaded);
  detail::write_categories(w, p.memory);
  w.key("collectives").begin_array();
  for (const trace_total& t : p.collectives) {
    w.begin_object().member("operation", t.operation).member("axis", t.axis).member("calls", t.calls);
    w.member("bytes", t.bytes).member("wire_bytes", t.wire_bytes).end_object();
  }
  return w.end_array().end_object().text();
}

}  // namespace weft
