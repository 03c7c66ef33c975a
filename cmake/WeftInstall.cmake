# `cmake --install`: the headers, find_package(weft) and pkg-config. Nothing in what is installed names this machine:
# the folder may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(weft_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
set(weft_generated "${PROJECT_BINARY_DIR}/package")

install(DIRECTORY include/weft DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl" PATTERN "*.cuh" PATTERN "*.cpp")
install(TARGETS weft EXPORT weftTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")

configure_package_config_file(cmake/weftConfig.cmake.in "${weft_generated}/weftConfig.cmake"
  INSTALL_DESTINATION "${weft_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${weft_generated}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${weft_generated}/weftConfig.cmake" "${weft_generated}/weftConfigVersion.cmake" cmake/WeftCompiledTarget.cmake cmake/WeftCudaTarget.cmake
    cmake/WeftMpiTarget.cmake cmake/WeftNcclTarget.cmake cmake/WeftCudnnTarget.cmake
  DESTINATION "${weft_package_dir}")

# weft.pc finds its prefix from where it lies.
set(weft_pc_flags "")
set(weft_pc_libs "")
if(WEFT_CBLAS)
  install(FILES cmake/FindCBLAS.cmake DESTINATION "${weft_package_dir}")
  set(weft_pc_flags " -DWEFT_CPU_CBLAS -I${CBLAS_INCLUDE_DIR}")
  set(weft_pc_libs " ${CBLAS_LIBRARY}")
endif()
set(weft_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(IS_ABSOLUTE CMAKE_INSTALL_INCLUDEDIR weft_fixed_place)
if(weft_fixed_place)
  set(weft_pc_include "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  file(RELATIVE_PATH weft_up "/${weft_pc_dir}" "/${CMAKE_INSTALL_INCLUDEDIR}")
  set(weft_pc_include "\${pcfiledir}/${weft_up}")
endif()
configure_file(cmake/weft.pc.in "${weft_generated}/weft.pc" @ONLY)
install(FILES "${weft_generated}/weft.pc" DESTINATION "${weft_pc_dir}")
