// The laws of communicators for ranks that are processes with a GPU each, over NCCL. Needs a GPU for each.
#include <doctest/doctest.h>

#include <weft/backend/nccl_mpi.cuh>
#include <weft/testing/communicator.hpp>

#include "../../backend/cuda/in_device_memory.hpp"
#include "../../mpi/world.hpp"

TEST_CASE("nccl over MPI: processes with a GPU each obey the laws of communicators") {
  static_assert(weft::communicator_policy<weft::nccl_mpi> && !weft::reduces_in_rank_order<weft::nccl_mpi>);
  weft::testing::check_communicator<weft_test::in_device_memory<weft::cuda_backend, weft::nccl_mpi>>(processes());
}
