# Defines weft::kernels: weft::weft, with the CPU's kernels compiled once instead of in every unit that calls them. Wants
# weft::weft, and weft_include_dir, where its headers are. Part of the build and of the installed package.
# Kernels are optimised in a build of type Debug too.
if(NOT TARGET weft::kernels)
  file(GLOB weft_kernels "${weft_include_dir}/weft/backend/cpu/compiled/*.cpp")
  add_library(weft_kernels STATIC EXCLUDE_FROM_ALL ${weft_kernels})
  add_library(weft::kernels ALIAS weft_kernels)
  target_link_libraries(weft_kernels PUBLIC weft::weft)
  target_compile_definitions(weft_kernels INTERFACE WEFT_COMPILED_KERNELS)
  target_compile_options(weft_kernels PRIVATE $<$<CONFIG:,Debug>:-O2>)
endif()
