// CUDA graphs that streams' captures make: executables that take the arguments of another graph of the same nodes, and
// launches. Invariant: a launch runs what its executable had when it was made, and an executable's launches run one
// after another.
#include <cuda_runtime_api.h>

#include "error.hpp"
#include "state.hpp"

using namespace device;

struct CUgraph_st {
  graph made;
};
struct CUgraphExec_st {
  std::shared_ptr<const graph> runs;
  streams::name last = nullptr;  // where it was launched last, and as which piece of that stream's work
  std::uint64_t number = 0;
};

extern "C" {

// For tests: what was called since it was asked last, as the members of `calls` in their order.
void weft_device_calls(std::uint64_t (&out)[8]) {
  held_lock held(the_device().lock);
  const calls c = std::exchange(the_device().called, {});
  const std::uint64_t all[8] = {c.plain,   c.captured,        c.launches, c.instantiations,
                                c.updates, c.refused_updates, c.waits,    c.waits_captured};
  std::copy(std::begin(all), std::end(all), out);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  held_lock held(the_device().lock);
  const capture_mode how = mode == cudaStreamCaptureModeRelaxed       ? capture_mode::relaxed
                           : mode == cudaStreamCaptureModeThreadLocal ? capture_mode::of_thread
                                                                      : capture_mode::global;
  return remembered(the_device().kept.begin(stream, how));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* made) {
  held_lock held(the_device().lock);
  graph out;
  *made = nullptr;
  const refusal why = the_device().kept.end(stream, out);
  if (why == refusal::none) *made = new CUgraph_st{std::move(out)};
  return remembered(why);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t of, unsigned long long flags) {
  if (flags || !of) return remembered(cudaErrorInvalidValue);
  held_lock held(the_device().lock);
  ++the_device().called.instantiations;
  *made = new CUgraphExec_st{std::make_shared<const graph>(of->made)};
  return cudaSuccess;
}
// What is under way goes on.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }

// CUDA takes a kernel in another's place, and a copy or a fill of the same memories.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t by, cudaGraphExecUpdateResultInfo* result) {
  held_lock held(the_device().lock);
  const std::string why = executable->runs->differs_from(by->made);
  *result = {};
  result->result = why.empty()         ? cudaGraphExecUpdateSuccess
                   : why == "topology" ? cudaGraphExecUpdateErrorTopologyChanged
                                       : cudaGraphExecUpdateErrorNodeTypeChanged;
  if (!why.empty()) return ++the_device().called.refused_updates, remembered(cudaErrorGraphExecUpdateFailure);
  ++the_device().called.updates;
  executable->runs = std::make_shared<const graph>(by->made);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t on) {
  state& s = the_device();
  held_lock held(s.lock);
  if (s.kept.captures_on(on)) return remembered(cudaErrorNotSupported);  // as a node of another graph
  if (!on)
    if (const cudaError_t e = remembered(s.kept.by_default_stream())) return e;
  const std::uint64_t drawn = s.seed + ++s.called.launches;
  executable->number =
      s.work.give(on, [&s, runs = executable->runs, before = executable->last, number = executable->number, drawn,
                       waiting = executable->runs->launch(on, s.work.given(on) + 1)](held_lock& h) {
        s.work.finish(h, before, number);
        runs->run(h, drawn, waiting);
      });
  executable->last = on;
  if (executable->runs->on_host()) s.work.bring(s.lock, on, executable->number);
  return cudaSuccess;
}

}  // extern "C"
