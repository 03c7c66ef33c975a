# Defines weft::mpi, what a program links that includes <weft/comm/mpi.hpp>; weft::weft and MPI must have been found.
# Part of the build and of the installed package.
if(NOT TARGET weft::mpi)
  add_library(weft_mpi INTERFACE)
  add_library(weft::mpi ALIAS weft_mpi)
  target_link_libraries(weft_mpi INTERFACE weft::weft MPI::MPI_CXX)
endif()
