// The laws of a communicator, over processes: mpirun starts this program, and every process is one rank.
#include <doctest/doctest.h>

#include <weft/comm/mpi.hpp>
#include <weft/testing/communicator.hpp>

#include "world.hpp"

using namespace weft;

TEST_CASE("mpi obeys the laws of a communicator, and adds in the order of ranks") {
  static_assert(communicator_policy<mpi> && reduces_in_rank_order<mpi>);
  testing::check_communicator<mpi>(processes());
}
