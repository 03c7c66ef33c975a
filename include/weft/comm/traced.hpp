// A decorator that writes every operation of a communicator to a log.
// Invariant: it does what the communicator inside does, and adds nothing to what moves.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "weft/comm/concept.hpp"
#include "weft/comm/trace_log.hpp"

namespace weft {

/// C, with its operations recorded in a `trace_log` under the rank's number in the world. Groups made by split record
/// in the same log under their name; a split itself is not recorded.
template <communicator C>
class traced : public comm_operations<traced<C>> {
 public:
  /// `inner` is the world, or the group whose ranks number the log's.
  traced(C inner, trace_log& log) : traced(inner, log, inner.rank(), "world") {}

  static constexpr bool reduces_in_rank_order = weft::reduces_in_rank_order<C>;
  static constexpr bool joins_graphs = weft::joins_graphs<C>;

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  bool takes_queue(const queue_ref& queue) const { return detail::takes_queue(inner_, queue); }
  /// Where C has another communicator for the host's memory: that, recorded alike.
  auto host() const requires requires(const C& c) { c.host(); }
  {
    using of_host = decltype(inner_.host());
    return traced<of_host>(inner_.host(), *log_, world_rank_, axis_);
  }
  trace_log& log() { return *log_; }
  C& inner() { return inner_; }

  request post(const comm_call& call) {
    const std::int64_t bytes = std::max(call.input_bytes(size()), call.output_bytes(size()));
    return recorder_->record(name_of(call.operation), axis_, call.label, bytes, wire_bytes(call),
                             [&] { return inner_.post(call); });
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
  /// As C::launch_checked, where it has one: C's calls are compared, and those of them recorded that this rank makes.
  template <class F>
  static void launch_checked(int ranks, F&& f) requires detail::launches_checked<C> {
    trace_log log(ranks);
    C::launch_checked(ranks, [&](auto& inner) {
      traced<std::remove_cvref_t<decltype(inner)>> world(inner, log);
      f(world);
    });
  }

 private:
  template <communicator>
  friend class traced;
  traced(C inner, trace_log& log, int world_rank, std::string axis)
      : inner_(std::move(inner)),
        log_(&log),
        recorder_(&log.recorder(world_rank)),
        world_rank_(world_rank),
        axis_(std::move(axis)) {
    recorder_->thread = std::this_thread::get_id();
  }

  /// What trace_event says it is.
  std::int64_t wire_bytes(const comm_call& call) const {
    switch (call.operation) {
      case comm_operation::all_reduce: {
        const std::int64_t own = call.count * (rank() + 1) / size() - call.count * rank() / size();
        return ((size() - 1) * own + call.count - own) * call.width();
      }
      case comm_operation::all_gather:
      case comm_operation::reduce_scatter:
      case comm_operation::all_to_all:
        return (size() - 1) * call.bytes();
      case comm_operation::all_to_allv:
        return call.output_bytes(size()) - call.recv_bytes[rank()];
      case comm_operation::broadcast:
      case comm_operation::recv:
        return call.peer == rank() ? 0 : call.bytes();
      default:
        return 0;
    }
  }

  C inner_;
  trace_log* log_;
  detail::trace_recorder* recorder_;
  int world_rank_;
  std::string axis_;
};

}  // namespace weft
