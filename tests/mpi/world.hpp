// How many processes mpirun started; the tests take every number. Invariant: it is the number that was asked for, since
// another MPI's mpirun starts as many worlds of one process, in which there is nothing to test.
#pragma once

#include <cstdlib>
#include <mpi.h>

#include <weft/comm/mpi.hpp>

inline int processes() {
  int count = 0;
  weft::mpi::process_rank();  // MPI has begun
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  if (const char* wanted = std::getenv("WEFT_TEST_RANKS"))
    weft::require(count == std::atoi(wanted), wanted, " processes were to be started, and this one is of ", count,
                  ": mpirun is of another MPI than mpicxx; set MPIEXEC_EXECUTABLE to its own");
  return count;
}
