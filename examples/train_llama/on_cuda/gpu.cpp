// What train_llama_cuda is: train_llama, whose ranks share a GPU.
#include <cuda_runtime_api.h>

#include <weft/core/error.hpp>

#include "../settings.hpp"

namespace train_llama {

namespace {

void require_gpu() {
  int count = 0;
  weft::require(cudaGetDeviceCount(&count) == cudaSuccess && count > 0,
                "there is no NVIDIA GPU here that CUDA can use, or no driver for it; examples/run.sh --backend cpu "
                "builds and runs the program that needs none");
}

}  // namespace

started_as this_process() { return {"train_llama_cuda", "threads that share GPU 0", "cuda", 0, require_gpu}; }

}  // namespace train_llama
