// The laws of communicators for ranks on GPUs of their own, over NCCL. Needs a GPU for each rank.
#include <doctest/doctest.h>

#include <weft/backend/nccl.cuh>
#include <weft/testing/communicator.hpp>

#include "../backend/cuda/in_device_memory.hpp"

TEST_CASE("nccl: ranks on GPUs of their own obey the laws of communicators") {
  for (const int ranks : {1, 2, 3, 4})
    if (ranks <= weft::gpu::device_count())
      weft::testing::check_communicator<weft_test::in_device_memory<weft::cuda_backend, weft::nccl>>(ranks);
}
