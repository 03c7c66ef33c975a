# Defines weft::compiled: weft::weft, with what needs not be compiled in every unit that calls it compiled once: the CPU's kernels and
# operators for the element types that ship, conversions, and all functions that are no templates. Wants weft::weft, and weft_include_dir,
# where its headers are. Part of the build and of the installed package. It is optimised in a build of type Debug too.
if(NOT TARGET weft::compiled)
  file(GLOB weft_compiled "${weft_include_dir}/weft/compiled/*.cpp")
  add_library(weft_compiled STATIC EXCLUDE_FROM_ALL ${weft_compiled})
  add_library(weft::compiled ALIAS weft_compiled)
  target_link_libraries(weft_compiled PUBLIC weft::weft)
  target_compile_definitions(weft_compiled INTERFACE WEFT_COMPILED)
  set_target_properties(weft_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)  # for shared libraries too
  target_compile_options(weft_compiled PRIVATE $<$<CONFIG:,Debug>:-O2> -ffunction-sections)
endif()
