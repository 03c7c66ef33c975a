// What stands in for NCCL where ranks are processes: this program starts itself as two of them. Each is told by its
// environment which it is, and what to do.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

namespace {

void must(cudaError_t e) { REQUIRE(e == cudaSuccess); }
std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// What the two print, who are called first and second.
std::string printed(const std::string& first, const std::string& second) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft_stand_in." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  setenv("WEFT_DEVICE_SHARED", folder.c_str(), 1);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  unsetenv("WEFT_DEVICE_SHARED");
  std::ofstream(folder / "id", std::ios::binary).write(id.internal, sizeof id.internal);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string(),
                    out = (folder / "printed").string();
  const auto start = [&](int rank, const std::string& what) {
    return "WEFT_TEST_RANK=" + std::to_string(rank) + " WEFT_TEST_DOES=" + what + " WEFT_TEST_ID='" +
           (folder / "id").string() + "' timeout 60 '" + self + "' --no-skip --test-case='a process of two' >>'" + out +
           "' 2>&1";
  };
  const int status = std::system((start(0, first) + " & " + start(1, second) + "; wait").c_str());
  static_cast<void>(status);
  std::ifstream file(out);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove_all(folder);
  return all;
}
bool has(const std::string& text, const char* part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return true;
}

}  // namespace

TEST_CASE("a process of two" * doctest::skip()) {
  if (setting("WEFT_TEST_DOES").empty()) return;
  const int rank = std::stoi(setting("WEFT_TEST_RANK"));
  const std::string does = setting("WEFT_TEST_DOES");
  must(cudaSetDevice(rank));
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float *in = nullptr, *out = nullptr, host[16] = {};
  must(cudaMalloc(reinterpret_cast<void**>(&in), 64));
  must(cudaMalloc(reinterpret_cast<void**>(&out), 64));
  for (float& x : host) x = float(rank + 1);
  must(cudaMemcpyAsync(in, host, 64, cudaMemcpyHostToDevice, stream));
  ncclUniqueId id;
  std::ifstream(setting("WEFT_TEST_ID"), std::ios::binary).read(id.internal, sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclSuccess);
  void* handle = nullptr;
  float* own = nullptr;
  if (does == "sums_registered") {
    must(cudaStreamSynchronize(stream));
    REQUIRE(ncclMemAlloc(reinterpret_cast<void**>(&own), 64) == ncclSuccess);
    REQUIRE(ncclCommRegister(comm, own, 64, &handle) == ncclSuccess);
    must(cudaMemcpy(own, in, 64, cudaMemcpyDeviceToDevice));
    std::swap(in, own);
  }
  if (does == "dies") std::raise(SIGKILL);
  if (does == "gathers") {
    ncclAllGather(in, out, 8, ncclFloat32, comm, stream);
  } else if (does == "sums_in_graph" || does == "ends_before_graph") {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    ncclAllReduce(in, out, 16, ncclFloat32, ncclSum, comm, stream);
    ncclAllReduce(out, in, 16, ncclFloat32, ncclSum, comm, stream);
    must(cudaStreamEndCapture(stream, &graph));
    must(cudaGraphInstantiate(&executable, graph, 0));
    must(cudaGraphDestroy(graph));
    for (int i = 0; i < 2; ++i) must(cudaGraphLaunch(executable, stream));
    must(cudaStreamSynchronize(stream));
    if (does == "sums_in_graph") must(cudaGraphExecDestroy(executable));
  } else {
    ncclAllReduce(in, out, does == "sums_fewer" ? 8 : 16, ncclFloat32, ncclSum, comm, stream);
  }
  if (does == "waits") {  // for one that is gone
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess || state == ncclInProgress) {
      std::this_thread::yield();
      REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    }
    std::printf("it says %s: %s\n", ncclGetErrorString(state), ncclGetLastError(comm));
    ncclCommAbort(comm);
    must(cudaStreamSynchronize(stream));  // returns
    return;
  }
  must(cudaStreamSynchronize(stream));
  must(cudaMemcpyAsync(host, out, 64, cudaMemcpyDeviceToHost, stream));
  must(cudaStreamSynchronize(stream));
  std::printf("rank %d has %g\n", rank, static_cast<double>(host[5]));
  if (handle) {
    REQUIRE(ncclCommDeregister(comm, handle) == ncclSuccess);
    REQUIRE(ncclMemFree(in) == ncclSuccess);
  }
  ncclCommFinalize(comm);
  ncclCommDestroy(comm);
}

TEST_CASE("processes: a sum reaches both") {
  const std::string said = printed("sums", "sums");
  has(said, "rank 0 has 3\n") && has(said, "rank 1 has 3\n") && has(said, " 0 findings");
}
TEST_CASE("processes: a graph's sums are done anew by each launch, and a communicator that ends before it is found") {
  const std::string said = printed("sums_in_graph", "sums_in_graph");  // 1 and 2: 3, 6; then 12, 24
  has(said, "rank 0 has 12\n") && has(said, "rank 1 has 12\n") && has(said, " 0 findings");
  has(printed("sums_in_graph", "ends_before_graph"),
      "a communicator ends, and a graph has operations of its rank 1, for whose end NCCL waits");
}
TEST_CASE("processes: ranks that call different operations or counts are found") {
  has(printed("gathers", "sums"),
      "ranks of one communicator disagree: rank 0 calls ncclAllGather(8 of type 7), and rank 1 "
      "ncclAllReduce(16 of type 7, operation 0)");
  has(printed("sums", "sums_fewer"),
      "rank 0 calls ncclAllReduce(16 of type 7, operation 0), and rank 1 ncclAllReduce(8");
}
TEST_CASE("processes: registered memory of both is well, of one alone is found") {
  const std::string both = printed("sums_registered", "sums_registered"), one = printed("sums", "sums_registered");
  has(both, "rank 0 has 3\n") && has(both, "rank 1 has 3\n") && has(both, " 0 findings");
  has(one, "ncclAllReduce is given registered memory by one of the ranks 0 and 1");
}
TEST_CASE("processes: one that died is told of, and an abort ends who waits for it") {
  const std::string said = printed("waits", "dies");
  has(said, "it says remote process exited or there was a network error: rank 1's process ");
  has(said, " is gone\n");
}
