// That cuDNN itself, NVIDIA's library, takes the graphs of attention: its heuristics are asked without a GPU, for one
// of compute capability 9.0 that its properties describe. Nothing runs. Of the run-time library the stand-in says what
// device there is, and the driver is the toolkit's stub.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <weft/backend/cuda/cudnn_plan.cuh>

namespace {

using weft::attention_shape, weft::dtype;
namespace detail = weft::gpu::detail;
namespace fe = cudnn_frontend;

// Of an H200, in the words that cuDNN 9.19 writes of a device; another version may have others.
constexpr std::string_view properties = R"({
  "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "totalGlobalMem": 150000000000,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000,
  "memClockRateKHz": 3201000, "l2CacheSize": 62914560})";

std::shared_ptr<fe::DeviceProperties> device() {
  auto made = std::make_shared<fe::DeviceProperties>();
  const fe::error_t status = made->deserialize({properties.begin(), properties.end()});
  if (status.is_good()) return made;
  std::printf("skipped: cuDNN %zu knows devices by other properties: %s\n", cudnnGetVersion(), status.err_msg.c_str());
  std::exit(77);
}

// The first answer that isn't success. An engine that wants more workspace than `most` isn't one.
fe::error_t asked(detail::cudnn_graph g, std::int64_t most) {
  static const auto on = device();
  g->set_device_properties(on);
  fe::error_t status = g->validate();
  if (status.is_good()) status = g->build_operation_graph();
  if (status.is_good()) status = g->create_execution_plans({fe::HeurMode_t::A});
  if (!status.is_good()) return status;
  g->deselect_workspace_greater_than(most);
  return g->check_support();
}
void takes(const attention_shape& s, dtype type) {
  CAPTURE(s.q_len);
  CAPTURE(s.kv_len);
  CAPTURE(s.head_dim);
  for (const auto& made : {detail::attention_graph, detail::attention_backward_graph}) {
    const fe::error_t status = asked(made(s, type), weft::gpu::most_cudnn_workspace);
    INFO(status.err_msg);
    CHECK(status.is_good());
  }
}

}  // namespace

TEST_CASE("cuDNN itself takes attention and its backward") {
  for (const dtype type : {dtype::bf16, dtype::f16})
    for (const attention_shape& s : {attention_shape{2, 7, 7, 3, 3, 8, 0.4, true},
                                     {1, 70, 70, 4, 2, 16, 0.25, true},
                                     {1, 130, 200, 2, 1, 40, 0.15, true},
                                     {2, 65, 31, 2, 2, 32, 0.2, false},
                                     {1, 3, 290, 6, 3, 24, 0.2, true},
                                     {1, 1, 40, 4, 1, 64, 0.12, true},
                                     {1, 100, 100, 4, 2, 16, 0.25, true, 37},
                                     {2, 7, 7, 2, 1, 8, 0.3, true, 1},
                                     {1, 100, 140, 4, 2, 64, 0.12, true, 50},
                                     {1, 64, 129, 2, 2, 128, 0.09, false},
                                     {1, 9, 40, 1, 1, 256, 0.06, false},
                                     {8, 1024, 1024, 32, 8, 128, 0.09, true}})
      takes(s, type);
}

TEST_CASE("what cuDNN itself doesn't take") {
  const auto refuses = [](const attention_shape& s, std::int64_t most = weft::gpu::most_cudnn_workspace) {
    return detail::refuses(asked(detail::attention_backward_graph(s, dtype::bf16), most));
  };
  CHECK(refuses({1, 1, 1, 2, 1, 64, 0.1, false}));
  CHECK(refuses({1, 64, 64, 2, 1, 264, 0.1, false}));
  // Two bytes for each score of a deterministic backward.
  const attention_shape longer{8, 4096, 4096, 32, 8, 128, 0.09, true};
  const std::int64_t scores = 2 * longer.batch * longer.heads * longer.q_len * longer.kv_len;
  CHECK(refuses(longer));
  CHECK(refuses(longer, scores - 1));
  CHECK_FALSE(refuses(longer, scores + scores / 8));
}
