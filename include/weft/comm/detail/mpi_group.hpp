// What the communicator over MPI takes from MPI's own header, and a group of ranks.
// Invariant: the classes for C++ that MPI implementations have beside their functions are left out.
#pragma once

#include "weft/core/requirements.hpp"

#if !__has_include(<mpi.h>)
#error "weft: weft/comm/mpi.hpp needs MPI's mpi.h: compile with mpicxx, or link weft::mpi (Debian: libopenmpi-dev)"
#endif
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // neither Open MPI's nor MPICH's classes for C++: they need a library of their own
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif

#include <cstdint>
#include <mpi.h>
#include <string>
#include <vector>

#include "weft/core/error.hpp"

namespace weft::detail {

/// Throws with MPI's own words where a call of it failed.
[[gnu::noinline]] inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, words, &length);
  fail(call, " failed: ", static_cast<const char*>(words));
}

/// Bytes that lie `stride` apart, if there are several: a part of a row of a matrix.
inline MPI_Datatype row_of(int bytes, std::int64_t stride) {
  MPI_Datatype part = MPI_DATATYPE_NULL, row = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(bytes, MPI_BYTE, &part), "MPI_Type_contiguous");
  check_mpi(MPI_Type_create_resized(part, 0, static_cast<MPI_Aint>(stride), &row), "MPI_Type_create_resized");
  check_mpi(MPI_Type_commit(&row), "MPI_Type_commit");
  MPI_Type_free(&part);
  return row;
}

/// Takes receives back from MPI; false where it may still touch their buffers, since a message is just arriving.
inline bool cancel_receives(std::vector<MPI_Request>& receives) noexcept {
  for (MPI_Request& r : receives)
    if (r != MPI_REQUEST_NULL) MPI_Cancel(&r);
  int done = 0;  // mostly at once
  for (int tries = 0; done == 0 && tries < 100000; ++tries)
    if (MPI_Testall(static_cast<int>(receives.size()), receives.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
      return false;
  return done != 0;
}

class mpi_operation;

/// One group of ranks: two communicators of MPI, since what a rank posts later must not come between what it calls.
struct mpi_group {
  MPI_Comm now = MPI_COMM_NULL, later = MPI_COMM_NULL;
  int rank = 0, size = 1;
  std::string name;
  std::vector<mpi_operation*> unposted;  // those that have steps to post on `later`, the oldest first
};

}  // namespace weft::detail
