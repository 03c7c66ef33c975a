# Sets WEFT_HAS_CUDA and defines weft::cuda: weft::weft plus the CUDA run-time and cuBLASLt. Never the driver library
# (libcuda): a program linked to it wouldn't start on a machine without a GPU.
set(WEFT_HAS_CUDA OFF)
if(NOT WEFT_CUDA STREQUAL "OFF")
  find_program(WEFT_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin)
  mark_as_advanced(WEFT_NVCC)
  if(WEFT_NVCC)
    set(CMAKE_CUDA_COMPILER "${WEFT_NVCC}" CACHE FILEPATH "The CUDA compiler")
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "The GPU architectures to build for")
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(WEFT_HAS_CUDA ON)
  elseif(WEFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WEFT_CUDA=ON, but there is no nvcc in PATH or /usr/local/cuda/bin. Set CUDACXX to it, or WEFT_CUDA=OFF.")
  endif()
endif()

if(WEFT_HAS_CUDA)
  add_library(weft_cuda INTERFACE)
  add_library(weft::cuda ALIAS weft_cuda)
  target_link_libraries(weft_cuda INTERFACE weft::weft CUDA::cudart CUDA::cublasLt)
  # CMake 3.25 does not know that nvcc has C++20 (cuda_std_20), so the flag stands here.
  target_compile_options(weft_cuda INTERFACE
    # 3001: its front end takes an assignment to a [[nodiscard]] object for one thrown away.
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;--extended-lambda;-diag-suppress=3001>)
endif()
