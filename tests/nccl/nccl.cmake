# Ranks over NCCL: a program of its own, so that no other needs NCCL's library to start. Without GPUs it runs on four devices on the host, over
# a libnccl.so.2 of the tests.
if(NOT WEFT_HAS_NCCL)
  add_test(NAME nccl/laws.cu COMMAND bash -c "echo 'skipped: CMake found no NCCL (Debian: libnccl-dev; or NCCL_ROOT)'; exit 77")
  set_tests_properties(nccl/laws.cu PROPERTIES SKIP_RETURN_CODE 77)
  return()
endif()

if(TARGET weft_device_cudart)
  add_library(weft_device_nccl SHARED "${here}/device/runtime/nccl.cpp")
  target_link_libraries(weft_device_nccl PRIVATE weft_build weft_device_cudart)
  target_include_directories(weft_device_nccl SYSTEM PRIVATE "${WEFT_NCCL_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(weft_device_nccl PRIVATE -O2 -ffp-contract=off)
  target_link_options(weft_device_nccl PRIVATE "-Wl,-soname,libnccl.so.2" "-Wl,--version-script=${here}/device/runtime/nccl.map")
  set_target_properties(weft_device_nccl PROPERTIES PREFIX lib OUTPUT_NAME nccl SUFFIX .so.2 NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/device_runtime" LINK_DEPENDS "${here}/device/runtime/nccl.map")

  # That it finds what it is there to find: by its own calls, which stand in CUDA's and NCCL's headers.
  add_executable(test_device_nccl "${here}/nccl/stand_in.cpp")
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
set(units_with_padding "^nccl/(laws|training|training_fp32)_test[.]cu$")
weft_test_folder(nccl test_nccl_cuda "weft_build;weft::nccl;${CMAKE_DL_LIBS}" ${nccl_tests})
foreach(source IN LISTS nccl_tests)
  string(REGEX REPLACE "_test[.]cu$" ".cu.without_gpu" name "${source}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "WEFT_DEVICE_COUNT=${devices}")
endforeach()
