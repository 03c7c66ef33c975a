// What stands in for NCCL on the devices on the host (device/runtime/nccl.cpp): it promises no more than NCCL does, and
// finds what is wrong. Two devices; this thread drives both, as NCCL's group calls allow.
#include <nccl.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "../device/runtime/state.hpp"

extern "C" int weft_nccl_live();
extern "C" void weft_nccl_counts(unsigned long long*, unsigned long long*, unsigned long long*);

namespace {

using device::held_lock;

void must(cudaError_t e) { REQUIRE(e == cudaSuccess); }
void must(ncclResult_t r) { REQUIRE((r == ncclSuccess || r == ncclInProgress)); }

// What was found since the last time, in one.
std::string found() {
  held_lock held(device::the_device().lock);
  std::string all;
  for (const std::string& one : device::the_device().gpu.take_findings()) all += one + "\n";
  return all;
}
bool has(const std::string& text, const char* part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

// A rank: its device, stream, communicator, and 16 floats twice.
struct place {
  int device;
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
  float *in = nullptr, *out = nullptr;

  explicit place(int number) : device(number) {
    must(cudaSetDevice(device));
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must(cudaMalloc(reinterpret_cast<void**>(&in), 64));
    must(cudaMalloc(reinterpret_cast<void**>(&out), 64));
    write(1);
  }
  ~place() {
    cudaStreamDestroy(stream);
    cudaFree(in);
    cudaFree(out);
  }
  void write(float value) const {
    std::vector<float> all(16, value);
    must(cudaMemcpyAsync(in, all.data(), 64, cudaMemcpyHostToDevice, stream));
    must(cudaStreamSynchronize(stream));
  }
  float read() const {
    float all[16];
    must(cudaMemcpyAsync(all, out, 64, cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));
    return all[5];
  }
};
void ready(ncclComm_t c) {
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) must(ncclCommGetAsyncError(c, &state));
}
struct two {
  std::unique_ptr<place> of[2] = {std::make_unique<place>(0), std::make_unique<place>(1)};
  two() {
    ncclUniqueId id;
    must(ncclGetUniqueId(&id));
    for (int r = 0; r < 2; ++r) {
      must(cudaSetDevice(r));
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      const ncclResult_t got = ncclCommInitRankConfig(&of[r]->comm, 2, id, r, &config);
      if (r == 0) CHECK(got == ncclInProgress);  // the other has still to come
    }
    settle();
  }
  ~two() {
    for (auto& p : of)
      if (p->comm) ncclCommAbort(p->comm);
  }
  void settle() {
    for (auto& p : of) ready(p->comm);
  }
  // f(rank, its place) as one group.
  template <class F>
  void together(const F& f) {
    must(ncclGroupStart());
    for (int r = 0; r < 2; ++r) f(r, *of[r]);
    must(ncclGroupEnd());
    settle();
  }
  void end() {
    for (auto& p : of) must(cudaStreamSynchronize(p->stream));
  }
};
ncclResult_t sum(place& p, std::size_t count = 16, ncclRedOp_t how = ncclSum) {
  return ncclAllReduce(p.in, p.out, count, ncclFloat32, how, p.comm, p.stream);
}

}  // namespace

TEST_CASE("a sum runs when its stream is waited for, or as soon as it can, and no communicator is left") {
  {
    two t;
    int late = 0, early = 0;
    for (int i = 0; i < 40; ++i) {
      for (auto& p : t.of) p->write(float(i + p->device));
      t.together([](int, place& p) { must(sum(p)); });
      cudaEvent_t e;
      must(cudaSetDevice(0));
      must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
      must(cudaEventRecord(e, t.of[0]->stream));
      (cudaEventQuery(e) == cudaSuccess ? early : late)++;
      CHECK(t.of[1]->read() == float(2 * i + 1));
      CHECK(t.of[0]->read() == float(2 * i + 1));
      cudaEventDestroy(e);
    }
    cudaGetLastError();
    CHECK(early > 5);
    CHECK(late > 5);
  }
  CHECK(weft_nccl_live() == 0);
  CHECK(found() == "");
}

TEST_CASE("while a communicator is in progress its operations aren't on their streams") {
  two t;
  int in_progress = 0;
  for (int i = 0; i < 40; ++i) {
    t.of[0]->write(2), t.of[1]->write(3);
    must(cudaMemsetAsync(t.of[0]->out, 0, 64, t.of[0]->stream));
    const ncclResult_t got = sum(*t.of[0]);
    must(got);
    if (got == ncclInProgress && ++in_progress) must(cudaStreamSynchronize(t.of[0]->stream));  // waits for no rank 1
    must(sum(*t.of[1]));
    t.settle();
    CHECK(t.of[0]->read() == 5);
    t.end();
  }
  CHECK(in_progress > 10);
  CHECK(found() == "");
}

TEST_CASE("maxima lose a NaN, and 16 bits are rounded at every step") {
  two t;
  t.of[0]->write(NAN), t.of[1]->write(3);
  t.together([](int, place& p) { must(sum(p, 16, ncclMax)); });
  CHECK(t.of[0]->read() == 3);
  t.together([](int, place& p) { must(sum(p)); });
  CHECK(std::isnan(t.of[1]->read()));
  CHECK(found() == "");
}

TEST_CASE("what is wrong is found") {
  SUBCASE("ranks that call different counts") {
    two t;
    t.together([](int r, place& p) { must(sum(p, r ? 8 : 4)); });
    t.end();
    has(found(),
        "disagree: rank 0 calls ncclAllReduce(4 of type 7, operation 0), and rank 1 ncclAllReduce(8 of type 7");
  }
  SUBCASE("ranks that call different operations") {
    two t;
    t.together(
        [](int r, place& p) { must(r ? sum(p) : ncclBroadcast(p.in, p.out, 16, ncclFloat32, 0, p.comm, p.stream)); });
    t.end();
    has(found(),
        "rank 0 calls ncclBroadcast(16 of type 7, root 0), and rank 1 ncclAllReduce(16 of type 7, operation 0)");
  }
  SUBCASE("a send that is longer than its recv") {
    two t;
    t.together([](int r, place& p) {
      must(r ? ncclRecv(p.out, 16, ncclFloat32, 0, p.comm, p.stream)
             : ncclSend(p.in, 15, ncclFloat32, 1, p.comm, p.stream));
    });
    t.end();
    has(found(), "rank 0 calls ncclSend(15 of type 7), and rank 1 ncclRecv(16 of type 7)");
  }
  SUBCASE("an array of another device") {
    two t;
    t.together([&](int r, place& p) {
      must(ncclAllReduce(r ? t.of[0]->in : p.in, p.out, 16, ncclFloat32, ncclSum, p.comm, p.stream));
    });
    t.end();
    has(found(), "ncclAllReduce: 64 bytes of device 0 are touched on device 1");
  }
  SUBCASE("an array that is too short, and one that nobody wrote") {
    two t;
    t.together([](int, place& p) { must(sum(p, 17)); });
    t.end();
    has(found(), "ncclAllReduce: 68 bytes aren't within one allocation");
    t.together([](int, place& p) { must(ncclAllReduce(p.out, p.in, 16, ncclFloat32, ncclSum, p.comm, p.stream)); });
    t.end();
    has(found(), "ncclAllReduce: it reads what nobody wrote");
  }
  SUBCASE("a stream of another device") {
    two t;
    t.together(
        [&](int, place& p) { must(ncclAllReduce(p.in, p.out, 16, ncclFloat32, ncclSum, p.comm, t.of[0]->stream)); });
    t.end();
    has(found(), "ncclAllReduce of rank 1, which is on device 1, is given to a stream of device 0");
  }
  SUBCASE("a call while the last is in progress") {
    two t;
    ncclResult_t got = ncclSuccess;
    for (int i = 0; i < 20 && got != ncclInvalidUsage; ++i) {
      got = sum(*t.of[0]);
      if (got == ncclInProgress) got = sum(*t.of[0]);
      ready(t.of[0]->comm);
    }
    CHECK(got == ncclInvalidUsage);
    has(found(), "rank 0 calls it while its last call is in progress");
  }
  SUBCASE("an end while an operation isn't called by all") {
    two t;
    must(sum(*t.of[0]));
    ready(t.of[0]->comm);
    must(ncclCommFinalize(t.of[0]->comm));
    has(found(), "an operation of its rank 0 was never called by all");
    ready(t.of[0]->comm);
  }
  SUBCASE("operations of two communicators on one device that no wait puts in order") {
    two first, second;
    for (int i = 0; i < 8; ++i) {  // some of the first run at once
      first.together([](int, place& p) { must(sum(p)); });
      second.together([](int, place& p) { must(sum(p)); });
      second.end(), first.end();
    }
    has(found(), "ncclAllReduce runs on device 0 before an operation that was given earlier");
    first.together([](int, place& p) { must(sum(p)); });
    for (int r = 0; r < 2; ++r) {
      cudaEvent_t e;
      must(cudaSetDevice(r));
      must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
      must(cudaEventRecord(e, first.of[r]->stream));
      must(cudaStreamWaitEvent(second.of[r]->stream, e, 0));
      must(cudaEventDestroy(e));
    }
    second.together([](int, place& p) { must(sum(p)); });
    second.end();
    CHECK(found() == "");
  }
  SUBCASE("a split while operations on the parent are outstanding") {
    two t;
    ncclResult_t got = ncclSuccess;
    ncclComm_t made[2] = {};
    for (int i = 0; i < 20 && got != ncclInvalidUsage; ++i) {  // some run at once
      t.together([](int, place& p) { must(sum(p)); });
      must(cudaSetDevice(0));
      cudaEvent_t e;
      must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
      must(cudaEventRecord(e, t.of[0]->stream));
      const bool outstanding = cudaEventQuery(e) != cudaSuccess;
      must(cudaEventDestroy(e));
      if (outstanding) got = ncclCommSplit(t.of[0]->comm, 0, 0, &made[0], nullptr);
      t.end();
    }
    cudaGetLastError();
    CHECK(got == ncclInvalidUsage);
    has(found(), "ncclCommSplit is called while operations on the parent are outstanding");
    for (int r = 0; r < 2; ++r) {
      must(cudaSetDevice(r));
      must(ncclCommSplit(t.of[r]->comm, 0, r, &made[r], nullptr));
    }
    t.settle();
    for (ncclComm_t c : made) {
      REQUIRE(c);
      ncclCommAbort(c);
    }
    CHECK(found() == "");
  }
  SUBCASE("a second thread that asks a communicator which is in progress for the first") {
    two t;
    for (bool seen = false; !seen;) {
      seen = sum(*t.of[0]) == ncclInProgress;
      if (seen)
        std::thread([&] {
          ncclResult_t state = ncclSuccess;
          must(ncclCommGetAsyncError(t.of[0]->comm, &state));
        }).join();
      ready(t.of[0]->comm);
    }
    has(found(), "a thread uses rank 0's communicator, which is in progress for another");
  }
  SUBCASE("two threads that ask one communicator at once") {
    two t;
    std::atomic<bool> over{false};
    std::thread other([&] {
      ncclResult_t state = ncclSuccess;
      while (!over) must(ncclCommGetAsyncError(t.of[0]->comm, &state));
    });
    std::string all;
    while ((all = found()).empty()) ready(t.of[0]->comm);
    over = true;
    other.join();
    has(all, "two threads use rank 0's communicator at once");
    found();
  }
  SUBCASE("two ranks on one device") {
    ncclUniqueId id;
    must(ncclGetUniqueId(&id));
    must(cudaSetDevice(0));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t a = nullptr, b = nullptr;
    must(ncclCommInitRankConfig(&a, 2, id, 0, &config));
    CHECK(ncclCommInitRankConfig(&b, 2, id, 1, &config) == ncclInvalidUsage);
    ncclCommAbort(a);
    has(found(), "two ranks of one communicator are on device 0");
  }
  CHECK(weft_nccl_live() == 0);
}

TEST_CASE("registered memory: what is wrong with it is found, and what is right is counted") {
  two t;
  float* own[2] = {};
  void* handle[2] = {};
  const auto of = [&](int r) { return t.of[r]->comm; };
  for (int r = 0; r < 2; ++r) {
    must(cudaSetDevice(r));
    must(ncclMemAlloc(reinterpret_cast<void**>(&own[r]), 128));
    must(cudaMemsetAsync(own[r], 0, 128, t.of[r]->stream));
    must(ncclCommRegister(of(r), own[r], 128, &handle[r]));
    REQUIRE(handle[r] != nullptr);
  }
  const auto sum_of = [&](int r, float* in, float* out) {
    return ncclAllReduce(in, out, 16, ncclFloat32, ncclSum, of(r), t.of[r]->stream);
  };
  const auto counted = [] {
    unsigned long long all = 0, registered = 0, made = 0;
    weft_nccl_counts(&all, &registered, &made);
    return std::vector{all, registered, made};
  };
  const auto let_go = [&] {
    t.end();
    for (int r = 0; r < 2; ++r) {
      must(ncclCommDeregister(of(r), handle[r]));
      must(ncclMemFree(own[r]));
    }
  };
  SUBCASE("nothing") {
    const auto before = counted();
    t.together([&](int r, place&) { must(sum_of(r, own[r], own[r] + 16)); });
    t.together([&](int r, place& p) { must(sum_of(r, own[r], p.out)); });
    t.together([&](int r, place& p) { must(sum_of(r, p.in, p.out)); });
    const auto after = counted();
    CHECK(after[0] - before[0] == 6);
    CHECK(after[1] - before[1] == 2);
    CHECK(after[2] == before[2]);
    let_go();
  }
  SUBCASE("some ranks' memory, and not that of others") {
    t.together([&](int r, place& p) { must(sum_of(r, r ? p.in : own[r], p.out)); });
    has(found(), "ncclAllReduce is given registered memory by one of the ranks 0 and 1, and other memory by the other");
    t.together([&](int r, place& p) {
      must(r ? ncclRecv(own[1], 4, ncclFloat32, 0, of(1), p.stream)
             : ncclSend(p.in, 4, ncclFloat32, 1, of(0), p.stream));
    });
    has(found(), "is given registered memory by one of the ranks 0 and 1");
    let_go();
  }
  SUBCASE("a range that isn't the device's, nor NCCL's, or that is registered already") {
    void* other = nullptr;
    CHECK(ncclCommRegister(of(0), &other, 8, &other) == ncclInvalidArgument);
    has(found(), "ncclCommRegister: 8 bytes aren't within one allocation");
    CHECK(ncclCommRegister(of(0), own[0], 132, &other) == ncclInvalidArgument);
    has(found(), "ncclCommRegister: 132 bytes aren't within one allocation");
    CHECK(ncclCommRegister(of(0), own[1], 128, &other) == ncclInvalidArgument);
    has(found(), "ncclCommRegister: 128 bytes of device 1 are touched on device 0");
    CHECK(ncclCommRegister(of(0), t.of[0]->in, 64, &other) == ncclInvalidUsage);
    has(found(), "ncclCommRegister is given memory that isn't of ncclMemAlloc's");
    CHECK(ncclCommRegister(of(0), own[0] + 8, 32, &other) == ncclInvalidUsage);
    has(found(), "rank 0's communicator has registered already");
    let_go();
  }
  SUBCASE("a handle of another communicator, and one that is no more") {
    CHECK(ncclCommDeregister(of(0), handle[1]) == ncclInvalidUsage);
    has(found(), "ncclCommDeregister is given a handle of another communicator");
    let_go();
    CHECK(ncclCommDeregister(of(0), handle[0]) == ncclInvalidUsage);
    has(found(), "ncclCommDeregister is given a handle that is none, or no more");
  }
  SUBCASE("memory that an operation under way has is deregistered") {
    must(sum_of(0, own[0], own[0] + 16));  // the other rank has still to come
    ready(of(0));
    CHECK(ncclCommDeregister(of(0), handle[0]) == ncclInvalidUsage);
    has(found(), "ncclCommDeregister is given memory that an operation under way of rank 0 has");
    must(sum_of(1, own[1], own[1] + 16));
    t.settle();
    let_go();
  }
  SUBCASE("memory that is registered is freed, and a communicator ends with such") {
    CHECK(ncclMemFree(own[0]) == ncclInvalidUsage);
    has(found(), "ncclMemFree is given memory that is registered with rank 0's communicator");
    must(ncclCommFinalize(of(0)));
    has(found(), "a communicator ends, and its rank 0 has 1 stretches of memory registered with it");
    ready(of(0));
    for (auto& p : t.of) ncclCommAbort(std::exchange(p->comm, nullptr));  // the handles end with it
    for (float* const at : own) must(ncclMemFree(at));
  }
  SUBCASE("memory is freed by the other family of calls") {
    let_go();
    must(cudaSetDevice(0));
    must(ncclMemAlloc(reinterpret_cast<void**>(&own[0]), 64));
    CHECK(cudaFree(own[0]) == cudaErrorInvalidValue);
    has(found(), "cudaFree is given memory of ncclMemAlloc's");
    must(ncclMemFree(own[0]));
    CHECK(ncclMemFree(t.of[0]->in) == ncclInvalidUsage);
    has(found(), "ncclMemFree is given what ncclMemAlloc didn't give");
    cudaGetLastError();
  }
  SUBCASE("memory is freed that the device is still to touch") {
    let_go();
    must(cudaSetDevice(0));
    must(ncclMemAlloc(reinterpret_cast<void**>(&own[0]), 64));
    must(cudaMemsetAsync(own[0], 0, 64, t.of[0]->stream));
    must(ncclMemFree(own[0]));
    must(cudaStreamSynchronize(t.of[0]->stream));
    has(found(), "cudaMemset: 64 bytes aren't within one allocation of the device");
  }
  CHECK(found() == "");
}

TEST_CASE("devices have memory, streams and events of their own") {
  const place a(0), b(1);
  must(cudaMemcpyAsync(a.out, b.in, 64, cudaMemcpyDeviceToDevice, a.stream));
  must(cudaStreamSynchronize(a.stream));
  has(found(), "cudaMemcpy, from: 64 bytes of device 1 are touched on device 0");
  must(cudaMemsetAsync(a.out, 0, 64, b.stream));
  must(cudaStreamSynchronize(b.stream));
  has(found(), "cudaMemset: 64 bytes of device 0 are touched on device 1");
  cudaEvent_t e;
  must(cudaSetDevice(1));
  must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  CHECK(cudaEventRecord(e, a.stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(e, b.stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(a.stream, e, 0) == cudaSuccess);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  must(cudaEventDestroy(e));
  int now = -1;
  must(cudaGetDevice(&now));
  CHECK(now == 1);
  cudaGetLastError();
  CHECK(found() == "");
}
