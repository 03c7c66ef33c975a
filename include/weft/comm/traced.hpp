// A decorator that writes every operation of a communicator to a log.
// Invariant: it does what the communicator inside does, and adds nothing to what moves.
#pragma once

#include <string>
#include <utility>

#include "weft/comm/concept.hpp"
#include "weft/comm/trace_log.hpp"

namespace weft {

/// C, with its operations recorded in a `trace_log` under the rank's number in the world. Groups made by split record
/// in the same log under their name; a split itself is not recorded.
template <communicator C>
class traced {
 public:
  /// `inner` is the world, or the group whose ranks number the log's.
  traced(C inner, trace_log& log) : traced(inner, log, inner.rank(), "world") {}

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  trace_log& log() { return *log_; }
  C& inner() { return inner_; }

  request all_reduce(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                     const collective_label& label = {}) {
    const auto width = static_cast<std::int64_t>(size_of(type));
    const std::int64_t own = count * (rank() + 1) / size() - count * rank() / size();  // elements this rank reduces
    return record(label, "all_reduce", count * width, ((size() - 1) * own + count - own) * width,
                  [&] { return inner_.all_reduce(in, out, count, type, how, label); });
  }
  request all_gather(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    return record(label, "all_gather", size() * bytes, (size() - 1) * bytes,
                  [&] { return inner_.all_gather(in, out, bytes, label); });
  }
  request reduce_scatter(const void* in, void* out, std::int64_t count, dtype type, reduction how,
                         const collective_label& label = {}) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(size_of(type));
    return record(label, "reduce_scatter", size() * bytes, (size() - 1) * bytes,
                  [&] { return inner_.reduce_scatter(in, out, count, type, how, label); });
  }
  request all_to_all(const void* in, void* out, std::int64_t bytes, const collective_label& label = {}) {
    return record(label, "all_to_all", size() * bytes, (size() - 1) * bytes,
                  [&] { return inner_.all_to_all(in, out, bytes, label); });
  }
  request broadcast(void* buffer, std::int64_t bytes, int root, const collective_label& label = {}) {
    return record(label, "broadcast", bytes, rank() == root ? 0 : bytes,
                  [&] { return inner_.broadcast(buffer, bytes, root, label); });
  }
  request send(const void* in, std::int64_t bytes, int to, const collective_label& label = {}) {
    return record(label, "send", bytes, 0, [&] { return inner_.send(in, bytes, to, label); });
  }
  request recv(void* out, std::int64_t bytes, int from, const collective_label& label = {}) {
    return record(label, "recv", bytes, from == rank() ? 0 : bytes,
                  [&] { return inner_.recv(out, bytes, from, label); });
  }
  request barrier(const collective_label& label = {}) {
    return record(label, "barrier", 0, 0, [&] { return inner_.barrier(label); });
  }
  traced split(int color, int key, const char* name) {
    return {inner_.split(color, key, name), *log_, world_rank_, name};
  }

  /// As C::launch. The log is the launch's own: read it in f, after a barrier, through `world.log()`.
  template <class F>
  static void launch(int ranks, F&& f) {
    trace_log log(ranks);
    launch(ranks, log, f);
  }
  /// As C::launch, recording in `log`, which must be for at least `ranks` ranks.
  template <class F>
  static void launch(int ranks, trace_log& log, F&& f) {
    require(log.ranks() >= ranks, "The trace log is for ", log.ranks(), " ranks, but ", ranks, " are launched.");
    C::launch(ranks, [&](C& inner) {
      traced world(inner, log);
      f(world);
    });
  }

 private:
  traced(C inner, trace_log& log, int world_rank, std::string axis)
      : inner_(std::move(inner)),
        log_(&log),
        recorder_(&log.recorder(world_rank)),
        world_rank_(world_rank),
        axis_(std::move(axis)) {}

  template <class Start>
  request record(const collective_label& label, const char* operation, std::int64_t bytes, std::int64_t wire_bytes,
                 const Start& start) {
    return recorder_->record(operation, axis_, label, bytes, wire_bytes, start);
  }

  C inner_;
  trace_log* log_;
  detail::trace_recorder* recorder_;
  int world_rank_;
  std::string axis_;
};

}  // namespace weft
