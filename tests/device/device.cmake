# The device on the host: an interpreter of PTX, and over it a libcudart.so.13 and a libcublasLt.so.13, with which the tests that need a
# GPU run the code that nvcc made of them without one.
file(GLOB device_sources CONFIGURE_DEPENDS "${here}/device/*.cpp")
list(FILTER device_sources EXCLUDE REGEX "_test[.]cpp$")
add_library(weft_device OBJECT ${device_sources})
target_link_libraries(weft_device PRIVATE weft_build)
set_target_properties(weft_device PROPERTIES POSITION_INDEPENDENT_CODE ON)
# Where all else is compiled without optimisation too: it interprets. Registers hold one type after another. Products and sums are
# fused where PTX says so.
target_compile_options(weft_device PRIVATE -O2 -fno-strict-aliasing -ffp-contract=off)

# LIBRARY NAME VERSION SOURCE...: a shared library that a program takes for NVIDIA's; sources lie in device/runtime, and the headers that it
# has beside CUDA's where its caller says.
function(weft_device_runtime library name version)
  list(TRANSFORM ARGN PREPEND "${here}/device/runtime/" REGEX "^[a-z_]+[.]cpp$")
  add_library(${library} SHARED ${ARGN})
  target_link_libraries(${library} PRIVATE weft_build)
  target_include_directories(${library} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(${library} PRIVATE -O2 -ffp-contract=off)
  target_link_options(${library} PRIVATE "-Wl,-soname,lib${name}.so.${version}" "-Wl,--version-script=${here}/device/runtime/${name}.map")
  set_target_properties(${library} PROPERTIES PREFIX lib OUTPUT_NAME ${name} SUFFIX .so.${version} NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/device_runtime" LINK_DEPENDS "${here}/device/runtime/${name}.map")
endfunction()

# Why there is no such device; empty: there is one.
set(device_lacks "")
if(NOT WEFT_HAS_CUDA)
  set(device_lacks "there is no nvcc here, whose code would be run")
elseif(CUDAToolkit_VERSION_MAJOR LESS 13)
  set(device_lacks "the device on the host stands for the libraries of CUDA 13, and this nvcc is of CUDA ${CUDAToolkit_VERSION}")
endif()

# Adds a test that runs a program, which needs a GPU, on the device on the host.
function(weft_test_on_device name)
  set(arguments "${CMAKE_CURRENT_BINARY_DIR}/device_runtime" ${ARGN})
  if(device_lacks)
    set(arguments --skipped "${device_lacks}")
  endif()
  add_test(NAME ${name} COMMAND bash "${here}/device/run.sh" ${arguments})
  set(limit ${time_limit})
  if("--seeds" IN_LIST ARGN)
    math(EXPR limit "8 * ${time_limit}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit} SKIP_RETURN_CODE 77 LABELS run
    ENVIRONMENT "WEFT_SOURCE_DIR=${PROJECT_SOURCE_DIR}" FAIL_REGULAR_EXPRESSION "test cases: +0 ")
endfunction()

if(NOT device_lacks)
  weft_device_runtime(weft_device_cudart cudart 13 state.cpp program.cpp error.cpp tensor_map.cpp cudart.cpp graphs.cpp
    $<TARGET_OBJECTS:weft_device>)
  target_link_libraries(weft_device_cudart PRIVATE Threads::Threads)
  weft_device_runtime(weft_device_cublaslt cublasLt 13 cublaslt.cpp)
  target_link_libraries(weft_device_cublaslt PRIVATE weft_device_cudart)

  # What they are told stands in CUDA's headers, so they aren't of the folder's other tests.
  foreach(unit IN ITEMS cublaslt devices graphs)
    add_executable(test_device_${unit} "${here}/device/${unit}_test.cpp")
    target_include_directories(test_device_${unit} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(test_device_${unit} PRIVATE weft_doctest_main weft_build weft_device_cublaslt weft_device_cudart Threads::Threads)
    add_test(NAME device/${unit} COMMAND test_device_${unit})
    set_tests_properties(device/${unit} PROPERTIES TIMEOUT ${time_limit} LABELS run FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  endforeach()
  # The kernels that docs/cuda.md goes through; own_kernel_test.sh counts what they ask for.
  add_executable(example_own_kernel "${PROJECT_SOURCE_DIR}/examples/own_kernel/product.cu")
  target_link_libraries(example_own_kernel PRIVATE weft_build weft::cuda)
  target_compile_options(example_own_kernel PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--no-compress>)
elseif(NOT WEFT_SANITIZE AND NOT WEFT_TEST_PART MATCHES "^units")
  weft_test_on_device(device/compiled)  # says that it is skipped
endif()
