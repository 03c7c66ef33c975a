// That captures and graphs of the device on the host are as strict as CUDA documents: what is captured runs when it is
// launched, as it was given, and not before; one wrong call for each refusal, a step away from one that is right.
#include <cuda_runtime_api.h>

#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/state.hpp"

namespace {

constexpr auto relaxed = cudaStreamCaptureModeRelaxed, of_thread = cudaStreamCaptureModeThreadLocal,
               global = cudaStreamCaptureModeGlobal;

cudaStream_t new_stream() {
  cudaStream_t made = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess);
  return made;
}

struct trial {
  cudaStream_t a = new_stream(), b = new_stream();
  cudaEvent_t e = nullptr, f = nullptr;
  std::uint8_t* memory = nullptr;  // 16 bytes of the device's, all 0

  trial() {
    REQUIRE(cudaEventCreateWithFlags(&e, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&f, cudaEventDisableTiming) == cudaSuccess);
    void* at = nullptr;
    REQUIRE(cudaMalloc(&at, 16) == cudaSuccess);
    memory = static_cast<std::uint8_t*>(at);
    REQUIRE(cudaMemset(memory, 0, 16) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  trial(const trial&) = delete;
  trial& operator=(const trial&) = delete;
  ~trial() {
    cudaGetLastError();
    for (cudaStream_t const s : {a, b}) cudaStreamDestroy(s);
    for (cudaEvent_t const x : {e, f}) cudaEventDestroy(x);
    cudaFree(memory);
  }

  cudaError_t set(cudaStream_t on, int byte, int value) const { return cudaMemsetAsync(memory + byte, value, 1, on); }
  int get(int byte) const {
    std::uint8_t out = 0;
    REQUIRE(cudaMemcpy(&out, memory + byte, 1, cudaMemcpyDeviceToHost) == cudaSuccess);
    return out;
  }
  void begin(cudaStreamCaptureMode how = relaxed) const { REQUIRE(cudaStreamBeginCapture(a, how) == cudaSuccess); }
  cudaGraph_t end() const {
    cudaGraph_t made = nullptr;
    REQUIRE(cudaStreamEndCapture(a, &made) == cudaSuccess);
    return made;
  }
  // What the end of a capture says that was given something wrong.
  cudaError_t refused_end() const {
    cudaGraph_t made = nullptr;
    const cudaError_t is = cudaStreamEndCapture(a, &made);
    CHECK(made == nullptr);
    CHECK(set(a, 15, 0) == cudaSuccess);  // afterwards it is as any other stream
    CHECK(cudaStreamSynchronize(a) == cudaSuccess);
    return is;
  }
  // A capture is ended by a call that it doesn't bear.
  void check_ended() const { CHECK(refused_end() == cudaErrorStreamCaptureInvalidated); }
  void fork() const {
    REQUIRE(cudaEventRecord(e, a) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(b, e, 0) == cudaSuccess);
  }
  void join() const {
    REQUIRE(cudaEventRecord(f, b) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(a, f, 0) == cudaSuccess);
  }
  static cudaGraphExec_t executable(cudaGraph_t of) {
    cudaGraphExec_t made = nullptr;
    REQUIRE(cudaGraphInstantiate(&made, of, 0) == cudaSuccess);
    return made;
  }
  // A graph that sets bytes.
  cudaGraph_t of_sets(const std::vector<std::pair<int, int>>& sets) const {
    begin();
    for (const auto& [byte, value] : sets) CHECK(set(a, byte, value) == cudaSuccess);
    return end();
  }
};

}  // namespace

TEST_CASE("what is captured runs when it was launched and is waited for, each time") {
  const trial t;
  t.begin();
  CHECK(t.set(t.a, 0, 5) == cudaSuccess);
  CHECK(t.set(t.b, 1, 6) == cudaSuccess);  // of another stream, which isn't captured
  CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
  CHECK(t.set(t.a, 2, 7) == cudaSuccess);
  cudaGraph_t const made = t.end();
  CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
  CHECK((t.get(0) == 0 && t.get(1) == 6 && t.get(2) == 0));
  cudaGraphExec_t const one = trial::executable(made);
  cudaGraphDestroy(made);
  for (int i = 0; i < 2; ++i) {
    CHECK(t.set(t.a, 0, 1) == cudaSuccess);
    CHECK(cudaGraphLaunch(one, t.a) == cudaSuccess);
    CHECK(t.set(t.a, 2, 1) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
    CHECK(t.get(0) == (i ? 5 : 0));  // as late as the waits permit
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK((t.get(0) == 5 && t.get(2) == 1));
  }
  cudaGraphExecDestroy(one);
}

TEST_CASE("an executable takes the arguments of a graph of the same nodes, and of no other") {
  const trial t;
  cudaGraph_t const first = t.of_sets({{0, 1}, {1, 1}}), same = t.of_sets({{2, 2}, {3, 2}}),
                    more = t.of_sets({{0, 3}, {1, 3}, {2, 3}});
  t.begin();
  t.fork();
  CHECK(t.set(t.a, 4, 1) == cudaSuccess);
  CHECK(t.set(t.b, 5, 1) == cudaSuccess);
  t.join();
  cudaGraph_t const beside = t.end();
  t.begin();
  CHECK(t.set(t.a, 4, 1) == cudaSuccess);
  CHECK(cudaMemcpyAsync(t.memory + 6, t.memory, 1, cudaMemcpyDeviceToDevice, t.a) == cudaSuccess);
  cudaGraph_t const copies = t.end();

  cudaGraphExec_t const one = trial::executable(first);
  cudaGraphExecUpdateResultInfo why{};
  CHECK(cudaGraphLaunch(one, t.a) == cudaSuccess);
  CHECK(cudaGraphExecUpdate(one, same, &why) == cudaSuccess);  // what is under way keeps its own
  CHECK(why.result == cudaGraphExecUpdateSuccess);
  CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
  CHECK((t.get(0) == 1 && t.get(1) == 1 && t.get(2) == 0));
  const auto refused = [&](cudaGraph_t by) {
    CHECK(cudaGraphExecUpdate(one, by, &why) == cudaErrorGraphExecUpdateFailure);
    return why.result;
  };
  CHECK(refused(more) == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(refused(beside) == cudaGraphExecUpdateErrorTopologyChanged);
  CHECK(refused(copies) == cudaGraphExecUpdateErrorNodeTypeChanged);
  CHECK(cudaGraphLaunch(one, t.a) == cudaSuccess);
  cudaGraphExecDestroy(one);  // it is under way
  CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
  CHECK((t.get(0) == 1 && t.get(2) == 2 && t.get(3) == 2));
  for (cudaGraph_t const g : {first, same, more, beside, copies}) cudaGraphDestroy(g);
}

TEST_CASE("nodes run behind those that they wait for, and otherwise as is drawn; an executable once at a time") {
  const trial t;
  static std::vector<int> ran;
  const auto say = [&](cudaStream_t on, std::size_t what) {
    CHECK(cudaLaunchHostFunc(
              on, [](void* which) { ran.push_back(static_cast<int>(reinterpret_cast<std::size_t>(which))); },
              reinterpret_cast<void*>(what)) == cudaSuccess);
  };
  t.begin();
  say(t.a, 1);
  t.fork();
  say(t.a, 2);
  say(t.b, 3);
  t.join();
  say(t.a, 4);
  cudaGraph_t const made = t.end();
  cudaGraphExec_t const one = trial::executable(made);
  CHECK(ran.empty());
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 32; ++i) {
    ran.clear();
    CHECK(cudaGraphLaunch(one, i % 2 ? t.a : t.b) == cudaSuccess);
    if (i == 9) CHECK(cudaGraphLaunch(one, t.a) == cudaSuccess);  // behind the other
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
    if (i != 9) orders.insert(ran);
  }
  CHECK(orders == std::set<std::vector<int>>{{1, 2, 3, 4}, {1, 3, 2, 4}});
  cudaGraphExecDestroy(one);
  cudaGraphDestroy(made);
}

TEST_CASE("a graph with a host function runs though nobody waits") {
  const trial t;
  std::atomic<int> seen = 0;
  t.begin();
  CHECK(cudaLaunchHostFunc(
            t.a,
            [](void* to) {
              static_cast<std::atomic<int>*>(to)->store(1);
              static_cast<std::atomic<int>*>(to)->notify_all();
            },
            &seen) == cudaSuccess);
  cudaGraph_t const made = t.end();
  cudaGraphExec_t const one = trial::executable(made);
  CHECK(seen == 0);
  CHECK(cudaGraphLaunch(one, t.a) == cudaSuccess);
  seen.wait(0);
  CHECK(seen == 1);
  CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
  cudaGraphExecDestroy(one);
  cudaGraphDestroy(made);
}

TEST_CASE("the host doesn't wait for what is captured") {
  const trial t;
  t.begin();
  CHECK(cudaStreamSynchronize(t.b) == cudaSuccess);
  CHECK(cudaStreamSynchronize(t.a) == cudaErrorStreamCaptureUnsupported);
  CHECK(t.set(t.a, 0, 1) == cudaErrorStreamCaptureInvalidated);
  t.check_ended();
  t.begin();
  CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
  t.check_ended();
  t.begin();
  t.fork();
  CHECK(cudaStreamSynchronize(t.b) == cudaErrorStreamCaptureUnsupported);  // it has joined
  t.check_ended();
  for (const auto asks : {cudaEventSynchronize, cudaEventQuery}) {
    t.begin();
    CHECK(asks(t.f) == cudaSuccess);
    CHECK(cudaEventRecord(t.e, t.a) == cudaSuccess);
    CHECK(asks(t.e) == cudaErrorCapturedEvent);
    t.check_ended();
    CHECK(asks(t.e) == cudaErrorCapturedEvent);
    CHECK(cudaEventRecord(t.e, t.a) == cudaSuccess);
    CHECK(cudaEventSynchronize(t.e) == cudaSuccess);
  }
  for (const auto way : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost}) {  // of memory that isn't pinned
    std::uint8_t here = 0;
    const bool up = way == cudaMemcpyHostToDevice;
    t.begin();
    CHECK(cudaMemcpyAsync(up ? t.memory : &here, up ? &here : t.memory, 1, way, t.a) ==
          cudaErrorStreamCaptureUnsupported);
    t.check_ended();
  }
  t.begin();
  CHECK(cudaStreamDestroy(t.a) == cudaErrorStreamCaptureUnsupported);
  t.check_ended();
}

TEST_CASE("a capture's streams wait for each other, and for nobody else") {
  const trial t;
  t.begin();
  t.fork();
  CHECK(t.set(t.b, 0, 1) == cudaSuccess);
  CHECK(t.refused_end() == cudaErrorStreamCaptureUnjoined);
  t.begin();
  t.fork();
  t.join();
  CHECK(t.set(t.b, 0, 1) == cudaSuccess);
  CHECK(t.refused_end() == cudaErrorStreamCaptureUnjoined);
  CHECK(cudaEventRecord(t.f, t.b) == cudaSuccess);
  t.begin();
  CHECK(cudaStreamWaitEvent(t.a, t.f, 0) == cudaErrorStreamCaptureIsolation);
  t.check_ended();
  CHECK(cudaStreamWaitEvent(t.a, t.f, 0) == cudaSuccess);
  t.begin();
  CHECK(cudaEventRecord(t.e, t.a) == cudaSuccess);
  cudaGraphDestroy(t.end());
  CHECK(cudaStreamWaitEvent(t.b, t.e, 0) == cudaErrorCapturedEvent);
  t.begin();
  CHECK(cudaEventRecord(t.e, t.a) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(nullptr, t.e, 0) == cudaErrorStreamCaptureUnsupported);
  t.check_ended();
  t.begin();
  CHECK(cudaEventRecord(t.e, t.a) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(t.b, relaxed) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(t.b, t.e, 0) == cudaErrorStreamCaptureMerge);
  cudaGraph_t none = nullptr;
  CHECK(cudaStreamEndCapture(t.b, &none) == cudaErrorStreamCaptureInvalidated);
  t.check_ended();
}

TEST_CASE("a capture begins once and ends where it began") {
  const trial t;
  cudaGraph_t none = nullptr;
  CHECK(cudaStreamEndCapture(t.a, &none) == cudaErrorIllegalState);
  CHECK(cudaStreamBeginCapture(nullptr, relaxed) == cudaErrorStreamCaptureUnsupported);
  t.begin();
  CHECK(cudaStreamBeginCapture(t.a, relaxed) == cudaErrorIllegalState);
  t.fork();
  CHECK(cudaStreamEndCapture(t.b, &none) == cudaErrorStreamCaptureUnmatched);
  t.check_ended();
  for (const auto how : {global, of_thread, relaxed}) {
    t.begin(how);
    cudaError_t is = cudaSuccess;
    std::thread([&] { is = cudaStreamEndCapture(t.a, &none); }).join();
    CHECK(is == (how == relaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread));
    cudaGraphDestroy(how == relaxed ? none : t.end());
  }
}

TEST_CASE("a capture's mode says who may take memory and wait meanwhile; nobody launches into it") {
  const trial t;
  const auto takes = [] {
    void* at = nullptr;
    const cudaError_t is = cudaMalloc(&at, 16);
    if (is == cudaSuccess) cudaFree(at);
    return is;
  };
  const auto pins = [] {
    void* at = nullptr;
    const cudaError_t is = cudaMallocHost(&at, 16);
    if (is == cudaSuccess) cudaFreeHost(at);
    return is;
  };
  const auto waits = [&] { return cudaStreamSynchronize(t.b); };
  const auto each = [&](auto call) {
    t.begin(relaxed);
    CHECK(call() == cudaSuccess);
    cudaGraphDestroy(t.end());
    for (const auto how : {global, of_thread}) {
      t.begin(how);
      cudaError_t beside = cudaSuccess;
      std::thread([&] { beside = call(); }).join();
      CHECK(beside == (how == global ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
      CHECK(call() == cudaErrorStreamCaptureUnsupported);
      t.check_ended();
    }
  };
  each(takes), each(pins), each(waits);
  for (const bool copies : {false, true}) {  // on the default stream, which isn't captured
    t.begin();
    std::uint8_t out = 0;
    CHECK((copies ? cudaMemcpy(&out, t.memory, 1, cudaMemcpyDeviceToHost) : t.set(nullptr, 0, 1)) ==
          cudaErrorStreamCaptureImplicit);
    t.check_ended();
  }
  cudaGraph_t const made = t.of_sets({{0, 1}});
  cudaGraphExec_t const one = trial::executable(made);
  t.begin();
  CHECK(cudaGraphLaunch(one, t.a) == cudaErrorNotSupported);
  cudaGraphDestroy(t.end());
  CHECK(cudaGraphInstantiate(nullptr, made, cudaGraphInstantiateFlagDeviceLaunch) == cudaErrorInvalidValue);
  cudaGraphExecDestroy(one);
  cudaGraphDestroy(made);
}

TEST_CASE("a graph reads memory of the host's when it runs, and is found where that was freed") {
  const trial t;
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 16) == cudaSuccess);
  *static_cast<std::uint8_t*>(pinned) = 3;
  t.begin();
  CHECK(cudaMemcpyAsync(t.memory, pinned, 1, cudaMemcpyDefault, t.a) == cudaSuccess);
  cudaGraph_t const made = t.end();
  *static_cast<std::uint8_t*>(pinned) = 4;
  cudaGraphExec_t const one = trial::executable(made);
  const auto run = [&] {
    CHECK(cudaGraphLaunch(one, t.a) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t.a) == cudaSuccess);
    const device::held_lock held(device::the_device().lock);
    return device::the_device().gpu.take_findings().size();
  };
  CHECK(run() == 0);
  CHECK(t.get(0) == 4);
  cudaFreeHost(pinned);
  CHECK(run() == 1);
  cudaGraphExecDestroy(one);
  cudaGraphDestroy(made);
}
