// The laws of communicators for ranks on GPUs of their own, over NCCL, in memory that is registered with it and in such
// that isn't. Needs a GPU for each rank.
#include <doctest/doctest.h>

#include <weft/backend/nccl.cuh>
#include <weft/testing/communicator.hpp>

#include "../backend/cuda/in_device_memory.hpp"

namespace {
struct cuda_memory_of_either_kind : weft::cuda_backend {
  static inline bool registered = false;
  static weft::memory_source memory() { return registered ? weft::nccl::registered_memory() : cuda_backend::memory(); }
};
}  // namespace

TEST_CASE("nccl: ranks on GPUs of their own obey the laws of communicators") {
  for (const bool registered : {false, true}) {
    cuda_memory_of_either_kind::registered = registered;
    for (const int ranks : {1, 2, 3, 4})
      if (ranks <= weft::gpu::device_count() && (!registered || ranks == 3))
        weft::testing::check_communicator<weft_test::in_device_memory<cuda_memory_of_either_kind, weft::nccl>>(ranks);
  }
}
