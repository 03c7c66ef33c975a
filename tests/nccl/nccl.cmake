# Ranks over NCCL: a program of its own, so that no other needs NCCL's library to start. Without GPUs it runs on four devices on the host, over
# a libnccl.so.2 of the tests.
if(NOT WEFT_HAS_NCCL)
  add_test(NAME nccl/laws.cu COMMAND bash -c "echo 'skipped: CMake found no NCCL (Debian: libnccl-dev; or NCCL_ROOT)'; exit 77")
  set_tests_properties(nccl/laws.cu PROPERTIES SKIP_RETURN_CODE 77)
  return()
endif()

if(TARGET weft_device_cudart)
  weft_device_runtime(weft_device_nccl nccl 2 nccl.cpp nccl_comm.cpp nccl_memory.cpp nccl_operation.cpp nccl_processes.cpp nccl_threads.cpp)
  target_link_libraries(weft_device_nccl PRIVATE weft_device_cudart)
  target_include_directories(weft_device_nccl SYSTEM BEFORE PRIVATE "${WEFT_NCCL_INCLUDE_DIR}")

  # That it finds what it is there to find: by its own calls, which stand in CUDA's and NCCL's headers.
  add_executable(test_device_nccl "${here}/nccl/stand_in.cpp" "${here}/nccl/stand_in_processes.cpp")
  target_include_directories(test_device_nccl SYSTEM PRIVATE "${WEFT_NCCL_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(test_device_nccl PRIVATE weft_doctest_main weft_build weft_device_nccl weft_device_cudart Threads::Threads)
  add_test(NAME nccl/stand_in COMMAND test_device_nccl)
  set_tests_properties(nccl/stand_in PROPERTIES TIMEOUT ${time_limit} LABELS run ENVIRONMENT "WEFT_DEVICE_COUNT=2"
    FAIL_REGULAR_EXPRESSION "test cases: +0 ")
endif()

file(GLOB nccl_tests CONFIGURE_DEPENDS RELATIVE "${here}" "nccl/*_test.cu")
set(devices 4)
if(WEFT_TEST_ALL)
  set(devices 8)  # of which one training takes all: a minute
elseif(WEFT_TEST_PART STREQUAL "rest" AND NOT gpus)
  list(FILTER nccl_tests EXCLUDE REGEX "/training_fp32_")  # a minute of nvcc for what differs in its numbers alone
endif()
set(units_without_gpu "^nccl/")
set(units_with_padding "^nccl/(laws|ranks|training|training_fp32)_test[.]cu$")  # ranks: folds of what an abort left unbrought
weft_test_folder(nccl test_nccl_cuda "weft_build;weft::nccl;${CMAKE_DL_LIBS}" ${nccl_tests})
foreach(source IN LISTS nccl_tests)
  string(REGEX REPLACE "_test[.]cu$" ".cu.without_gpu" name "${source}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "WEFT_DEVICE_COUNT=${devices}")
endforeach()

# Ranks that are processes: mpirun starts the program, and each is on a GPU of its own.
if(NOT WEFT_HAS_MPI)
  add_test(NAME nccl/mpi/ranks.cu COMMAND bash -c "echo 'skipped: CMake found no MPI (Debian: libopenmpi-dev)'; exit 77")
  set_tests_properties(nccl/mpi/ranks.cu PROPERTIES SKIP_RETURN_CODE 77)
elseif(NOT WEFT_SANITIZE AND NOT WEFT_TEST_PART MATCHES "^units")
  set(process_tests nccl/mpi/ranks_test.cu nccl/mpi/graphs_test.cu)
  set(process_counts 2 4)
  if(WEFT_TEST_ALL OR gpus)
    list(APPEND process_tests nccl/mpi/training_test.cu)  # a minute of nvcc
    set(process_counts 1 2 3 4)
  endif()
  add_executable(test_nccl_mpi_cuda ${process_tests})
  target_link_libraries(test_nccl_mpi_cuda PRIVATE weft_doctest_main weft_build weft::nccl weft::mpi ${CMAKE_DL_LIBS})
  target_include_directories(test_nccl_mpi_cuda PRIVATE "${here}")
  weft_test_optimisation(test_nccl_mpi_cuda nccl)
  set(over_processes bash "${here}/nccl/mpi/over_processes.sh")
  set(on_devices "${MPIEXEC_EXECUTABLE}" 2 "${CMAKE_CURRENT_BINARY_DIR}/device_runtime" $<TARGET_FILE:test_nccl_mpi_cuda>)
  set(properties TIMEOUT ${time_limit} SKIP_RETURN_CODE 77 LABELS run FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  foreach(source IN LISTS process_tests)
    string(REGEX REPLACE "_test[.]cu$" ".cu.without_gpu" name "${source}")
    foreach(ranks IN LISTS process_counts)
      if(device_lacks)
        add_test(NAME ${name}.${ranks} COMMAND bash "${here}/device/run.sh" --skipped "${device_lacks}")
      else()
        list(TRANSFORM on_devices REPLACE "^[0-9]+$" ${ranks})
        add_test(NAME ${name}.${ranks} COMMAND ${over_processes} ${on_devices} "--source-file=*/tests/${source}")
      endif()
      set_tests_properties(${name}.${ranks} PROPERTIES PROCESSORS ${ranks} ${properties})
    endforeach()
  endforeach()
  if(NOT device_lacks)
    list(TRANSFORM on_devices REPLACE "^[0-9]+$" 2)
    add_test(NAME nccl/mpi/killed COMMAND ${over_processes} --killed ${on_devices} "--test-case=killed: *")
    # As batch systems start processes: each sees one device.
    add_test(NAME nccl/mpi/one_each COMMAND ${over_processes} --visible RANK ${on_devices}
      "--test-case=nccl over MPI: operations run between*,nccl over MPI: a weight that*")
    add_test(NAME nccl/mpi/one_card COMMAND ${over_processes} --visible 0 ${on_devices} --no-skip "--test-case=one card: *")
    set_tests_properties(nccl/mpi/killed nccl/mpi/one_each nccl/mpi/one_card PROPERTIES PROCESSORS 2 ${properties})
  endif()
endif()
