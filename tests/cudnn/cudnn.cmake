# cuDNN's attention: programs of their own, so that no other needs cuDNN's library to start. Without a GPU they run on the device on the
# host, over a libcudnn.so.9 of the tests.
if(NOT TARGET weft::cudnn)
  add_test(NAME cudnn/attention.cu COMMAND bash -c "echo 'skipped: CMake found ${WEFT_LACKS_CUDNN}'; exit 77")
  set_tests_properties(cudnn/attention.cu PROPERTIES SKIP_RETURN_CODE 77)
  return()
endif()

if(TARGET weft_device_cudart)
  weft_device_runtime(weft_device_cudnn cudnn 9 cudnn.cpp cudnn_descriptor.cpp cudnn_graph.cpp cudnn_operation.cpp cudnn_run.cpp)
  target_link_libraries(weft_device_cudnn PRIVATE weft_device_cudart)
  target_include_directories(weft_device_cudnn SYSTEM BEFORE PRIVATE "${WEFT_CUDNN_INCLUDE_DIR}")

  # That it refuses what it is there to refuse: by its own calls, which stand in cuDNN's headers.
  add_executable(test_device_cudnn "${here}/cudnn/stand_in.cpp")
  target_include_directories(test_device_cudnn SYSTEM PRIVATE "${WEFT_CUDNN_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(test_device_cudnn PRIVATE weft_doctest_main weft_build weft_device_cudnn weft_device_cudart Threads::Threads)
  add_test(NAME cudnn/stand_in COMMAND test_device_cudnn)
  set_tests_properties(cudnn/stand_in PROPERTIES TIMEOUT ${time_limit} LABELS run FAIL_REGULAR_EXPRESSION "test cases: +0 ")

  # cuDNN itself, asked for a GPU that isn't here: over the stand-in of the run-time library and the toolkit's stub of the driver.
  find_file(WEFT_CUDA_STUB libcuda.so PATHS "${CUDAToolkit_LIBRARY_DIR}" PATH_SUFFIXES stubs NO_DEFAULT_PATH)
  mark_as_advanced(WEFT_CUDA_STUB)
  if(WEFT_CUDA_STUB)
    set(beside "${CMAKE_CURRENT_BINARY_DIR}/cudnn_library")
    file(MAKE_DIRECTORY "${beside}")
    file(CREATE_LINK "${WEFT_CUDA_STUB}" "${beside}/libcuda.so.1" SYMBOLIC)
    file(CREATE_LINK "${CMAKE_CURRENT_BINARY_DIR}/device_runtime/libcudart.so.13" "${beside}/libcudart.so.13" SYMBOLIC)
    add_executable(test_cudnn_library "${here}/cudnn/library.cpp")
    target_link_libraries(test_cudnn_library PRIVATE weft_doctest_main weft_build weft::cudnn)
    add_dependencies(test_cudnn_library weft_device_cudart)
    add_test(NAME cudnn/library COMMAND test_cudnn_library)
    set_tests_properties(cudnn/library PROPERTIES TIMEOUT ${time_limit} SKIP_RETURN_CODE 77 LABELS run
      ENVIRONMENT "LD_LIBRARY_PATH=${beside}:${CUDAToolkit_LIBRARY_DIR}" FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  else()
    add_test(NAME cudnn/library COMMAND bash -c "echo 'skipped: the CUDA toolkit has no stub of the driver (lib64/stubs/libcuda.so)'; exit 77")
    set_tests_properties(cudnn/library PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endif()

file(GLOB cudnn_tests CONFIGURE_DEPENDS RELATIVE "${here}" "cudnn/*_test.cu")
if(NOT WEFT_TEST_ALL)
  list(FILTER cudnn_tests EXCLUDE REGEX "/training_")  # another minute and a half of nvcc
endif()
set(units_without_gpu "^cudnn/")
set(units_with_padding "^cudnn/training_")
weft_test_folder(cudnn test_cudnn_cuda "weft_build;weft::cudnn" ${cudnn_tests})
