# Defines weft::cuda; weft::weft and CUDAToolkit must have been found. Part of the build and of the installed package.
if(NOT TARGET weft::cuda)
  add_library(weft_cuda INTERFACE)
  add_library(weft::cuda ALIAS weft_cuda)
  target_link_libraries(weft_cuda INTERFACE weft::weft CUDA::cudart CUDA::cublasLt)
  # CMake 3.25 does not know that nvcc has C++20 (cuda_std_20), so the flag stands here.
  target_compile_options(weft_cuda INTERFACE
    # 3001: its front end takes an assignment to a [[nodiscard]] object for one thrown away.
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;--extended-lambda;-diag-suppress=3001>)
endif()
