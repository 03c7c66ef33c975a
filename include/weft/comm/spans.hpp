// Spans: what one rank was doing when, and how much memory it held at their edges. Null where nobody asked.
// Invariant: spans nest; the log belongs to one rank and is written from its thread only.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <weft/memory/arena.hpp>

namespace weft {

/// What a rank was busy with, from when to when.
struct span {
  std::string name;
  double begin_us = 0;                          // microseconds since the log's origin
  double end_us = -1;                           // -1: not ended
  std::uint64_t first_made = 0, last_made = 0;  // of the arena's allocations: the numbers of those within it
};

/// How much memory a rank held at a time.
struct memory_sample {
  double at_us;
  std::array<std::size_t, memory_categories> bytes;
};

/// The spans of a rank, nested, for a trace.
class span_log {
 public:
  explicit span_log(const arena& memory,
                    std::chrono::steady_clock::time_point origin = std::chrono::steady_clock::now())
      : memory_(memory), origin_(origin) {}

  WEFT_LINKED void begin(std::string name) {
    open_.push_back(spans_.size());
    spans_.push_back({std::move(name), now(), -1, memory_.made() + 1});
    sample(spans_.back().begin_us);
  }
  WEFT_LINKED void end() {
    if (open_.empty()) return;
    span& s = spans_[open_.back()];
    open_.pop_back();
    s.end_us = now();
    s.last_made = memory_.made();
    sample(s.end_us);
  }
  /// Ends spans until `depth` are open: what an exception has left.
  void end_to(std::size_t depth) {
    while (open_.size() > depth) end();
  }
  std::size_t depth() const { return open_.size(); }

  const std::vector<span>& spans() const { return spans_; }
  /// The moment that times count from.
  std::chrono::steady_clock::time_point origin() const { return origin_; }
  /// The innermost ended span in which the arena made its allocation of this number; empty where there was none.
  WEFT_LINKED std::string_view made_in(std::uint64_t number) const {
    for (std::size_t i = spans_.size(); i-- > 0;)
      if (spans_[i].first_made <= number && number <= spans_[i].last_made) return spans_[i].name;
    return {};
  }
  const std::vector<memory_sample>& samples() const { return samples_; }

  /// Names of the model's units, by their number.
  std::vector<std::string> units;
  std::string unit_name(int unit) const {
    const auto i = static_cast<std::size_t>(unit);
    return i < units.size() ? units[i] : "unit " + std::to_string(unit);
  }

 private:
  double now() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - origin_).count();
  }
  void sample(double at) {
    if (samples_.empty() || samples_.back().bytes != memory_.ledger().current)
      samples_.push_back({at, memory_.ledger().current});
  }

  const arena& memory_;
  std::chrono::steady_clock::time_point origin_;
  std::vector<span> spans_;
  std::vector<memory_sample> samples_;
  std::vector<std::size_t> open_;
};

/// A span for the life of the object; nothing where the log is null.
class scoped_span {
 public:
  scoped_span(span_log* log, const char* name) : log_(log) {
    if (log_) depth_ = log_->depth(), log_->begin(name);
  }
  scoped_span(span_log* log, const char* name, std::int64_t number) : log_(log) {
    if (log_) depth_ = log_->depth(), log_->begin(name + (' ' + std::to_string(number)));
  }
  ~scoped_span() {
    if (log_) log_->end_to(depth_);
  }
  scoped_span(const scoped_span&) = delete;
  scoped_span& operator=(const scoped_span&) = delete;

 private:
  span_log* log_;
  std::size_t depth_ = 0;
};

}  // namespace weft
