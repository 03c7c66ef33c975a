// What the CUDA backend says where there is no GPU, and that it opens where there is one.
#include <string>

#include <doctest/doctest.h>

#include <weft/backend/cuda.cuh>
#include <weft/parallel/launch.hpp>

using namespace weft;

namespace {

template <class F>
std::string sentence_of(F f) {
  try {
    f();
  } catch (const failure& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a stream opens where there is a GPU, and else says what is missing") {
  const std::string why = sentence_of([] { gpu::stream queue; });
  if (gpu::device_count() > 0)
    CHECK(why == "");
  else
    CHECK(why ==
          "there is no NVIDIA GPU here that CUDA can use, or no driver for it: run with cpu_backend, or on a machine "
          "with both");
  CHECK(sentence_of([] { gpu::stream queue(1000); }) != "");
}

TEST_CASE("a launch on the GPU fails with the same sentence, of one rank or of several") {
  using on_gpu = strategy<mesh<dp>, cuda_backend>;
  for (const int ranks : {1, 2}) {
    const std::string why = sentence_of([&] { launch<on_gpu>({.dp = ranks}, [](context&) {}); });
    if (gpu::device_count() > 0)
      CHECK(why == "");
    else
      CHECK(why.find("there is no NVIDIA GPU here that CUDA can use") != std::string::npos);
  }
}

TEST_CASE("an error names the call and what CUDA says") {
  const std::string why = sentence_of([] { gpu::check(cudaErrorInvalidValue, "cudaMemcpyAsync"); });
  CHECK(why == "cudaMemcpyAsync failed: invalid argument (CUDA error 1)");
  CHECK(sentence_of([] {
          gpu::check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul");
        }).find("cublasLtMatmul failed: ") == 0);
}

TEST_CASE("a kernel that can't be started is named, with its grid") {
  const auto why = [](cudaError_t status) {
    return sentence_of([&] { gpu::detail::check_launch<gpu::fill_kernel<bf16>>(status, 12, 300000); });
  };
  CHECK(why(cudaSuccess) == "");
  CHECK(why(cudaErrorInvalidValue) ==
        "launching fill_kernel<bf16> with 12 blocks of 256 threads and 300000 bytes of shared memory each failed: "
        "invalid argument (CUDA error 1)");
}
