// The laws of communicators for ranks that share a GPU. Needs a GPU.
#include <doctest/doctest.h>

#include <weft/backend/cuda.cuh>
#include <weft/testing/communicator.hpp>

#include "in_device_memory.hpp"

TEST_CASE("cuda: ranks on one GPU obey the laws of communicators") {
  for (const int ranks : {1, 2, 3, 8})
    weft::testing::check_communicator<weft_test::in_device_memory<weft::cuda_backend>>(ranks);
}
