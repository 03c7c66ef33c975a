# Defines weft::nccl, what a program links that includes <weft/backend/nccl.cuh>, where nccl.h and libnccl are found: beside the CUDA
# toolkit's, among the system's, or under NCCL_ROOT (for the wheel nvidia-nccl-cu13: .../site-packages/nvidia/nccl). weft::cuda must be there.
# Part of the build and of the installed package.
if(NOT TARGET weft::nccl)
  find_path(WEFT_NCCL_INCLUDE_DIR nccl.h HINTS "${NCCL_ROOT}" ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(WEFT_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS "${NCCL_ROOT}" ENV NCCL_ROOT "${CUDAToolkit_LIBRARY_DIR}" PATH_SUFFIXES lib)
  mark_as_advanced(WEFT_NCCL_INCLUDE_DIR WEFT_NCCL_LIBRARY)
  if(WEFT_NCCL_INCLUDE_DIR AND WEFT_NCCL_LIBRARY)
    add_library(weft_nccl INTERFACE)
    add_library(weft::nccl ALIAS weft_nccl)
    target_link_libraries(weft_nccl INTERFACE weft::cuda "${WEFT_NCCL_LIBRARY}")
    target_include_directories(weft_nccl SYSTEM INTERFACE "${WEFT_NCCL_INCLUDE_DIR}")
  endif()
endif()
