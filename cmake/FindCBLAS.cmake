# Finds a C BLAS, OpenBLAS first: CBLAS::CBLAS. -DCMAKE_PREFIX_PATH=... points elsewhere.
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas)
find_library(CBLAS_LIBRARY NAMES openblas cblas blis blas)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CBLAS REQUIRED_VARS CBLAS_LIBRARY CBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "WEFT_CBLAS=ON needs cblas.h and a BLAS (Debian: apt-get install libopenblas-dev)")
if(CBLAS_FOUND AND NOT TARGET CBLAS::CBLAS)
  add_library(CBLAS::CBLAS UNKNOWN IMPORTED)
  set_target_properties(CBLAS::CBLAS PROPERTIES IMPORTED_LOCATION "${CBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CBLAS_INCLUDE_DIR}")
endif()
mark_as_advanced(CBLAS_INCLUDE_DIR CBLAS_LIBRARY)
