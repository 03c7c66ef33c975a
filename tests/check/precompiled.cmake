# Under clang a test's units begin with <weft/weft.hpp> and doctest as one precompiled header, and what it instantiates is compiled
# once, in an object that each program links: half to a quarter of the time. A unit that sets a macro of the library includes it itself.
# The header's bytes say where the checkout lies; ccache takes a hash of its text instead (.sum), which another clone has too.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(weft_pch "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp.pch")
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp"
    CONTENT "#include <weft/weft.hpp>\n#include <doctest/doctest.h>\n#include <thread>\n" @ONLY)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND flags -std=c++20 -DWEFT_COMPILED_KERNELS ${weft_sanitizer_flags})
  set(includes -I "${PROJECT_SOURCE_DIR}/include")
  if(NOT WEFT_DOCTEST_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    list(APPEND includes -isystem "${WEFT_DOCTEST_DIR}")
  endif()
  set(weft_pch_flags -fpch-instantiate-templates -fpch-codegen)
  add_custom_command(OUTPUT "${weft_pch}" "${weft_pch}.sum" "${weft_pch}.o"
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} ${includes} ${weft_pch_flags} -x c++-header precompiled/units/all.hpp -o "${weft_pch}"
      -MD -MT "${weft_pch}" -MF "${weft_pch}.d"
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/check/text_sum.sh" "${weft_pch}.sum" ${CMAKE_CXX_COMPILER} ${flags} ${includes}
      -x c++-header precompiled/units/all.hpp
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} -c "${weft_pch}" -o "${weft_pch}.o"
    DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp" DEPFILE "${weft_pch}.d"
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" VERBATIM
    COMMENT "Precompiling <weft/weft.hpp> for the tests' units")
  add_custom_target(weft_precompiled_units DEPENDS "${weft_pch}" "${weft_pch}.o")
endif()

# weft_precompiled(TARGET UNIT...): these units of TARGET begin with the precompiled header.
function(weft_precompiled target)
  if(NOT weft_pch)
    return()
  endif()
  add_dependencies(${target} weft_precompiled_units)
  target_link_libraries(${target} PRIVATE "${weft_pch}.o")
  target_link_options(${target} PRIVATE -Wl,--gc-sections)  # all inline functions are in it, and one calls what libstdc++ doesn't export
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" own_macros REGEX "^ *# *define")
    if(own_macros)
      continue()
    endif()
    set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${weft_pch}")
    set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -include-pch "${weft_pch}" ${weft_pch_flags})
  endforeach()
endfunction()
