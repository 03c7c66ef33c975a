// trace.json: a run as Perfetto and Chrome show it. A process a rank; a thread for what it computed, one for each axis'
// collectives, numbered alike on all ranks. Invariant: complete events on one thread nest or are disjoint; those that
// overlap get further threads. Format: the Trace Event Format, complete (X), counter (C) and metadata (M) events; times
// in microseconds.
#pragma once

#include <algorithm>
#include <cmath>

#include <weft/comm/trace_log.hpp>
#include <weft/io/file.hpp>
#include <weft/io/json.hpp>
#include <weft/tensor/gather_text.hpp>
#include <weft/train/align_clocks.hpp>
#include <weft/train/training.hpp>

namespace weft {
namespace detail {

/// Events of one rank, joined by commas.
class trace_fragment {
 public:
  explicit trace_fragment(int process) : process_(process) {}

  double shift_us = 0;  // added to every time

  void name_process(const std::string& name) { metadata("process_name", 0, name); }
  void name_thread(int thread, const std::string& name) { metadata("thread_name", thread, name); }

  WEFT_LINKED void complete(int thread, std::string_view name, double begin_us, double end_us,
                            std::string_view arguments = {}) {
    const long long from = nanoseconds(begin_us + shift_us), to = std::max(nanoseconds(end_us + shift_us), from);
    json_writer w;
    head(w, name, "X").member("tid", thread).key("ts").raw(microseconds(from)).key("dur").raw(microseconds(to - from));
    if (!arguments.empty()) w.key("args").raw(arguments);
    add(w.end_object());
  }
  WEFT_LINKED void counter(std::string_view name, double at_us, std::string_view values) {
    json_writer w;
    add(head(w, name, "C")
            .key("ts")
            .raw(microseconds(nanoseconds(at_us + shift_us)))
            .key("args")
            .raw(values)
            .end_object());
  }
  const std::string& text() const { return text_; }

 private:
  static long long nanoseconds(double us) { return std::llround(us * 1000); }
  WEFT_LINKED static std::string microseconds(long long ns) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%lld.%03lld", ns / 1000, ns % 1000);
    return digits;
  }
  WEFT_LINKED json_writer& head(json_writer& w, std::string_view name, const char* phase) const {
    return w.begin_object().member("name", name).member("ph", phase).member("pid", process_);
  }
  WEFT_LINKED void metadata(const char* what, int thread, const std::string& name) {
    json_writer w;
    add(head(w, what, "M")
            .member("tid", thread)
            .key("args")
            .begin_object()
            .member("name", name)
            .end_object()
            .end_object());
  }
  void add(const json_writer& w) {
    if (!text_.empty()) text_ += ",\n";
    text_ += w.text();
  }

  int process_;
  std::string text_;
};

/// For events that begin in this order, the first lane on which each one overlaps nothing.
class lanes {
 public:
  WEFT_LINKED int place(double begin, double end) {
    for (std::size_t i = 0; i < ends_.size(); ++i)
      if (ends_[i] <= begin) return ends_[i] = end, static_cast<int>(i);
    ends_.push_back(end);
    return static_cast<int>(ends_.size()) - 1;
  }

 private:
  std::vector<double> ends_;
};

/// The tracks of an axis begin at 1000 times its place among `axes`, the first being 1, so a number means one axis on
/// every rank. Track 0 computes; there it is also seen how long the rank waited.
WEFT_LINKED void add_collectives(trace_fragment& out, const std::vector<trace_event>& events,
                                 std::vector<std::string> axes) {
  for (const trace_event& e : events)
    if (std::find(axes.begin(), axes.end(), e.axis) == axes.end()) axes.push_back(e.axis);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const int first = 1000 * static_cast<int>(axis + 1);
    lanes rows;
    int used = 0;
    for (const trace_event& e : events) {
      if (e.axis != axes[axis] || e.end_us < 0) continue;
      const int lane = rows.place(e.begin_us, e.end_us);
      for (; used <= lane; ++used)
        out.name_thread(first + used,
                        "collectives " + e.axis + (used > 0 ? " (" + std::to_string(used + 1) + ")" : ""));
      const bool says_it = e.label.starts_with(e.operation);  // "all_reduce of [batch]"
      const std::string name = says_it ? e.label : e.label.empty() ? e.operation : e.operation + (' ' + e.label);
      json_writer args;
      args.begin_object().member("operation", e.operation).member("axis", e.axis).member("for", e.label);
      if (!e.at.empty()) args.member("at", e.at);
      args.member("bytes", e.bytes).member("wire_bytes", e.wire_bytes);
      if (e.queue_waits) args.member("the queue waits, us", e.end_us - e.wait_us);
      args.end_object();
      out.complete(first + lane, name, e.begin_us, e.end_us, args.text());
      if (e.wait_us >= 0 && !e.queue_waits) out.complete(0, "wait for " + name, e.wait_us, e.end_us);
    }
  }
}

}  // namespace detail

/// What is added to a rank's times, in microseconds: to those of its spans and samples, and to its collectives'.
struct trace_shift {
  double spans_us = 0, collectives_us = 0;
};

/// One rank's events. `axes`: the groups' names in an order that all ranks know. `collectives` may be null.
WEFT_LINKED std::string trace_events_json(int rank, const std::string& place, const span_log& log,
                                          const std::vector<std::string>& axes,
                                          const std::vector<trace_event>* collectives, const trace_shift& shift = {}) {
  detail::trace_fragment out(rank);
  out.shift_us = shift.spans_us;
  out.name_process("rank " + std::to_string(rank) + (place.empty() ? "" : " (" + place + ")"));
  out.name_thread(0, "compute");
  for (const span& s : log.spans())
    if (s.end_us >= 0) out.complete(0, s.name, s.begin_us, s.end_us);
  for (const memory_sample& m : log.samples()) {
    json_writer values;
    values.begin_object();
    for (std::size_t c = 0; c < m.bytes.size(); ++c) values.member(memory_names[c], m.bytes[c]);
    out.counter("memory, bytes", m.at_us, values.end_object().text());
  }
  out.shift_us = shift.collectives_us;
  if (collectives) detail::add_collectives(out, *collectives, axes);
  return out.text();
}

/// Writes all ranks' events to `path`, on the first rank's clock: exactly where ranks are of one machine, as threads or
/// processes, else to half a message's round trip. All ranks call it; the first one writes.
WEFT_LINKED void write_trace(context& ctx, const span_log& log, const trace_log* collectives, const std::string& path) {
  std::string place;
  std::vector<std::string> axes{"world"};
  for (const axis_group& g : ctx.axes()) {
    axes.emplace_back(g.name);
    if (g.degree > 1 && g.axis != id_of<pipeline_ends>)
      place += (place.empty() ? "" : ", ") + std::string(g.name) + ' ' + std::to_string(g.index);
  }
  trace_shift shift;
  shift.spans_us = detail::to_first_ranks_time(ctx, log.origin());
  // Both on one clock: what a rank's collectives are counted from, seen from the first rank's spans.
  if (collectives)
    shift.collectives_us =
        shift.spans_us + std::chrono::duration<double, std::micro>(collectives->origin() - log.origin()).count();
  const auto all = detail::gather_text(
      ctx, trace_events_json(ctx.rank().here(), place, log, axes,
                             collectives ? &collectives->events(ctx.rank().here()) : nullptr, shift));
  if (!ctx.is_first()) return;
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const std::string& one : all) text += (&one == &all.front() ? "" : ",\n") + one;
  write_file(path, text + "\n]}\n");
}

/// Switches a rank's recording on for the steps of a window, and off before and after them.
class step_tracer {
 public:
  step_tracer(context& ctx, const trace_window& window, bool wanted)
      : ctx_(ctx),
        window_(window),
        log_(ctx.memory, window.collectives ? window.collectives->origin() : std::chrono::steady_clock::now()) {
    if (!wanted) window_.last = window_.first - 1;
    pause(true);
  }
  ~step_tracer() { stop(); }
  step_tracer(const step_tracer&) = delete;
  step_tracer& operator=(const step_tracer&) = delete;

  WEFT_LINKED void before(std::int64_t step) {
    if (step < window_.first || step > window_.last || ctx_.spans) return;
    ctx_.spans = &log_;
    pause(false);
  }
  void after(std::int64_t step) {
    if (step >= window_.last) stop();
  }
  span_log& log() { return log_; }
  const trace_log* collectives() const { return window_.collectives; }

 private:
  void stop() {
    if (ctx_.spans == &log_) ctx_.spans = nullptr;
    pause(true);
  }
  void pause(bool paused) {
    if (window_.collectives) window_.collectives->pause(ctx_.rank().here(), paused);
  }

  context& ctx_;
  trace_window window_;
  span_log log_;
};

}  // namespace weft
