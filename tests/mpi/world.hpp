// How many processes mpirun started; the tests take every number.
#pragma once

#include <mpi.h>

#include <weft/comm/mpi.hpp>

inline int processes() {
  int count = 0;
  weft::mpi::process_rank();  // MPI has begun
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}
