// Several devices on the host: whose memory it is that a stream's work touches, and copies from one to another.
#include <cuda_runtime_api.h>

#include <cstdlib>

#include <doctest/doctest.h>

#include "runtime/state.hpp"

namespace {

[[maybe_unused]] const int two_devices = setenv("WEFT_DEVICE_COUNT", "2", 1);  // before anybody asks for one

std::size_t findings() { return device::the_device().gpu.take_findings().size(); }

// A device with a stream and 16 bytes that are all `value`.
struct one_device {
  int number;
  cudaStream_t stream = nullptr;
  std::uint8_t* memory = nullptr;

  one_device(int n, int value) : number(n) {
    REQUIRE(cudaSetDevice(n) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    void* at = nullptr;
    REQUIRE(cudaMalloc(&at, 16) == cudaSuccess);
    memory = static_cast<std::uint8_t*>(at);
    REQUIRE(cudaMemset(memory, value, 16) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  one_device(const one_device&) = delete;
  one_device& operator=(const one_device&) = delete;
  ~one_device() {
    cudaSetDevice(number);
    cudaStreamDestroy(stream);
    cudaFree(memory);
  }
  int byte(int i) const {
    std::uint8_t out = 0;
    REQUIRE(cudaSetDevice(number) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(&out, memory + i, 1, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return out;
  }
};

}  // namespace

TEST_CASE("a copy between devices comes when its stream is waited for") {
  one_device a(0, 1), b(1, 2);
  REQUIRE(cudaMemsetAsync(b.memory, 3, 8, b.stream) == cudaSuccess);
  REQUIRE(cudaMemcpyPeerAsync(a.memory, 0, b.memory, 1, 12, b.stream) == cudaSuccess);
  CHECK(a.byte(0) == 1);  // a's own stream doesn't know of it
  REQUIRE(cudaStreamSynchronize(b.stream) == cudaSuccess);
  CHECK(a.byte(0) == 3);
  CHECK(a.byte(11) == 2);
  CHECK(a.byte(12) == 1);
  CHECK(findings() == 0);
}

TEST_CASE("a stream of one device waits for an event of another's") {
  one_device a(0, 1), b(1, 2);
  cudaEvent_t done = nullptr;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaMemcpyPeerAsync(a.memory, 0, b.memory, 1, 16, b.stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(done, b.stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(a.stream, done, 0) == cudaSuccess);
  CHECK(a.byte(15) == 2);
  CHECK(findings() == 0);
  cudaEventDestroy(done);
}

TEST_CASE("one that waits is done, after all that devices were given before") {
  one_device a(0, 1), b(1, 2);
  REQUIRE(cudaMemsetAsync(b.memory, 5, 16, b.stream) == cudaSuccess);
  REQUIRE(cudaMemcpyPeer(a.memory, 0, b.memory, 1, 16) == cudaSuccess);
  CHECK(a.byte(7) == 5);
  CHECK(findings() == 0);
}

TEST_CASE("what touches another device's memory is found") {
  one_device a(0, 1), b(1, 2);
  REQUIRE(cudaMemcpyAsync(a.memory, b.memory, 16, cudaMemcpyDeviceToDevice, a.stream) == cudaSuccess);
  CHECK(a.byte(0) == 1);
  CHECK(findings() == 1);
  REQUIRE(cudaMemsetAsync(b.memory, 0, 16, a.stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(a.stream) == cudaSuccess);
  CHECK(findings() == 1);
  SUBCASE("by a copy that names the wrong one") {
    REQUIRE(cudaMemcpyPeerAsync(a.memory, 1, b.memory, 1, 16, a.stream) == cudaSuccess);
    CHECK(a.byte(0) == 1);
    CHECK(findings() == 1);
  }
  SUBCASE("by one that goes beyond an allocation") {
    REQUIRE(cudaMemcpyPeerAsync(a.memory, 0, b.memory + 8, 1, 16, a.stream) == cudaSuccess);
    CHECK(a.byte(0) == 1);
    CHECK(findings() == 1);
  }
  SUBCASE("and a device that isn't there is refused") {
    CHECK(cudaMemcpyPeerAsync(a.memory, 0, b.memory, 2, 16, a.stream) == cudaErrorInvalidDevice);
    CHECK(cudaMemcpyPeerAsync(a.memory, -1, b.memory, 1, 16, a.stream) == cudaErrorInvalidDevice);
    cudaGetLastError();
    CHECK(findings() == 0);
  }
}
