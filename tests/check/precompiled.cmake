# Under clang a test's units begin with precompiled.hpp, precompiled, and what it instantiates is compiled once, in an object that each
# program links: half to a quarter of the time. A unit that sets a macro of the library includes it itself.
# The header's bytes say where the checkout lies; ccache takes a hash of its text instead (.sum), which another clone has too.
set(weft_pch_flags -fpch-instantiate-templates -fpch-codegen)

# weft_precompile(FOLDER COMPILER INCLUDES FLAGS...): a rule for precompiled/FOLDER/all.hpp.pch, .pch.sum and .pch.o, by clang.
function(weft_precompile folder compiler text)
  set(header "precompiled/${folder}/all.hpp")
  set(pch "${CMAKE_CURRENT_BINARY_DIR}/${header}.pch")
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${header}" CONTENT "${text}" @ONLY)
  set(flags -std=c++20 ${ARGN})
  set(as_header -I "${PROJECT_SOURCE_DIR}/include" -x c++-header "${header}")
  add_custom_command(OUTPUT "${pch}" "${pch}.sum"
    COMMAND ${compiler} ${flags} ${weft_pch_flags} ${as_header} -o "${pch}" -MD -MT "${pch}" -MF "${pch}.d"
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/check/text_sum.sh" "${pch}.sum" ${compiler} ${flags} ${as_header}
    DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/${header}" DEPFILE "${pch}.d"
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" VERBATIM
    COMMENT "Precompiling the header of ${folder}")
  add_custom_command(OUTPUT "${pch}.o"
    COMMAND ${compiler} ${flags} -c "${pch}" -o "${pch}.o"
    DEPENDS "${pch}" VERBATIM
    COMMENT "Compiling what the header of ${folder} instantiates")
  add_custom_target(weft_precompiled_header_${folder} DEPENDS "${pch}")
  add_custom_target(weft_precompiled_${folder} DEPENDS "${pch}.o")
  add_dependencies(weft_precompiled_${folder} weft_precompiled_header_${folder})
endfunction()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND flags -DWEFT_COMPILED ${weft_sanitizer_flags})
  if(NOT WEFT_DOCTEST_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    list(APPEND flags -isystem "${WEFT_DOCTEST_DIR}")
  endif()
  if(NOT WEFT_JSON_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    list(APPEND flags -isystem "${WEFT_JSON_DIR}")
  endif()
  set(text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/check/precompiled.hpp\"\n")
  if(WEFT_SANITIZE MATCHES "thread")  # few of whose units include the rest
    set(text "#include <weft/weft.hpp>\n#include <doctest/doctest.h>\n#include <thread>\n")
  endif()
  weft_precompile(units "${CMAKE_CXX_COMPILER}" "${text}" ${flags})
endif()

# weft_precompiled(TARGET UNIT...): these units of TARGET begin with the precompiled header.
function(weft_precompiled target)
  if(NOT TARGET weft_precompiled_units)
    return()
  endif()
  set(pch "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp.pch")
  add_dependencies(${target} weft_precompiled_header_units)  # to compile; to link, the object
  target_link_libraries(${target} PRIVATE "${pch}.o")
  target_link_options(${target} PRIVATE -Wl,--gc-sections)  # all inline functions are in it, and one calls what libstdc++ doesn't export
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" own_macros REGEX "^ *# *define")
    if(own_macros)
      continue()
    endif()
    set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${pch}")
    set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -include-pch "${pch}" ${weft_pch_flags})
  endforeach()
endfunction()
