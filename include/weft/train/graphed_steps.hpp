// Steps that a trainer gives to its queue as one graph each. Invariant: what was kept back when a run ends, by an
// exception too, is given.
#pragma once

#include <weft/core/queue.hpp>
#include <weft/tensor/context.hpp>

namespace weft::detail {

/// Throws weft::failure where steps of this context's queue can't be graphs.
WEFT_LINKED void require_step_graph(const context& ctx, bool has_graphs) {
  require(has_graphs,
          "step_graph: this backend's queue has no graphs, as cuda_backend's has: leave training.step_graph out");
  require(ctx.size() == 1 || ctx.world.joins_graphs(), "step_graph: there are ", ctx.size(),
          " ranks, and their communicator's operations can't be part of a graph, as nccl_mpi's can: take that, launch "
          "one rank, or leave training.step_graph out");
}

template <class Backend>
class graphed_steps {
  using queue = typename Backend::queue;
  static constexpr bool has_graphs = graph_queue<queue>;

 public:
  /// The first steps go without: memory grows there, and products are planned.
  static constexpr int without = 2;

  /// wanted: else steps go without all along. Throws as require_step_graph does.
  graphed_steps(context& ctx, bool wanted) : queue_(ctx.queue<Backend>()), wanted_(wanted) {
    if (wanted) require_step_graph(ctx, has_graphs);
  }
  graphed_steps(const graphed_steps&) = delete;
  graphed_steps& operator=(const graphed_steps&) = delete;
  ~graphed_steps() {
    try {
      launch();
    } catch (...) {  // the device has failed, or the capture, which the run's own exception tells
    }
  }

  /// While it is true, what is given goes one by one.
  bool off = false;
  /// A step begins.
  void begin() {
    if constexpr (has_graphs)
      if (wanted_ && !off && ++begun_ > without) queue_.begin_graph();
  }
  /// It was given.
  void launch() {
    if constexpr (has_graphs)
      if (wanted_) queue_.launch_graph();
  }

 private:
  queue& queue_;
  bool wanted_;
  int begun_ = 0;
};

}  // namespace weft::detail
