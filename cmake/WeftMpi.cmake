# Sets WEFT_HAS_MPI and, where it is on, defines weft::mpi.
set(WEFT_HAS_MPI OFF)
if(NOT WEFT_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)  # the classes for C++ that MPI 3 took away
  # Debian has several MPIs beside each other, by suffix: one's compiler goes with its own mpiexec, and /usr/bin/mpiexec is one's alone.
  if(MPI_CXX_COMPILER MATCHES "^(.*/)mpi[^/.]*([.][a-z]+)$")
    find_program(MPIEXEC_EXECUTABLE NAMES "mpiexec${CMAKE_MATCH_2}" PATHS "${CMAKE_MATCH_1}" NO_DEFAULT_PATH)
  endif()
  find_package(MPI COMPONENTS CXX QUIET)
  if(MPI_CXX_FOUND)
    set(WEFT_HAS_MPI ON)
    message(STATUS "weft: MPI found: ${MPI_CXX_COMPILER}, ${MPIEXEC_EXECUTABLE}")
    include(WeftMpiTarget)
  elseif(WEFT_MPI STREQUAL "ON")
    message(FATAL_ERROR "WEFT_MPI=ON, but CMake finds no MPI (Debian: apt-get install libopenmpi-dev openmpi-bin). Set MPI_CXX_COMPILER to an mpicxx, or WEFT_MPI=OFF.")
  endif()
endif()
