# Under clang a test's units begin with <weft/weft.hpp> and doctest as one precompiled header, and what it instantiates is compiled
# once, in an object that each program links: half to a quarter of the time. A unit that sets a macro of the library includes it itself.
# The header's bytes say where the checkout lies; ccache takes a hash of its text instead (.sum), which another clone has too.
set(weft_pch_flags -fpch-instantiate-templates -fpch-codegen)

# weft_precompile(FOLDER COMPILER INCLUDES FLAGS...): a rule for precompiled/FOLDER/all.hpp.pch, .pch.sum and .pch.o, by clang.
function(weft_precompile folder compiler text)
  set(header "precompiled/${folder}/all.hpp")
  set(pch "${CMAKE_CURRENT_BINARY_DIR}/${header}.pch")
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${header}" CONTENT "${text}" @ONLY)
  set(flags -std=c++20 ${ARGN})
  set(as_header -I "${PROJECT_SOURCE_DIR}/include" -x c++-header "${header}")
  add_custom_command(OUTPUT "${pch}" "${pch}.sum" "${pch}.o"
    COMMAND ${compiler} ${flags} ${weft_pch_flags} ${as_header} -o "${pch}" -MD -MT "${pch}" -MF "${pch}.d"
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/check/text_sum.sh" "${pch}.sum" ${compiler} ${flags} ${as_header}
    COMMAND ${compiler} ${flags} -c "${pch}" -o "${pch}.o"
    DEPENDS "${CMAKE_CURRENT_BINARY_DIR}/${header}" DEPFILE "${pch}.d"
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" VERBATIM
    COMMENT "Precompiling <weft/weft.hpp> for ${folder}")
  add_custom_target(weft_precompiled_${folder} DEPENDS "${pch}" "${pch}.o")
endfunction()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND flags -DWEFT_COMPILED ${weft_sanitizer_flags})
  if(NOT WEFT_DOCTEST_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    list(APPEND flags -isystem "${WEFT_DOCTEST_DIR}")
  endif()
  weft_precompile(units "${CMAKE_CXX_COMPILER}" "#include <weft/weft.hpp>\n#include <doctest/doctest.h>\n#include <thread>\n" ${flags})
endif()

# g++ has neither the object nor instances in the header, but doesn't read it again for each unit: a third of the time. What a unit includes is
# then not noted beside it, so this is for who builds all units (run.sh), and not for who changes headers or asks what a change reaches.
option(WEFT_TEST_PRECOMPILED "g++'s units of the tests begin with a precompiled header: for a build of all of them" OFF)
if(WEFT_TEST_PRECOMPILED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT WEFT_SANITIZE AND NOT WEFT_TEST_ALL)
  set(header "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp")
  set(gch "${header}.gch")
  file(CONFIGURE OUTPUT "${header}" CONTENT "#include <weft/weft.hpp>\n#include <doctest/doctest.h>\n#include <thread>\n" @ONLY)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_RELEASE}")
  list(APPEND flags -Og -std=c++20 -Wall -Wextra -DWEFT_COMPILED -I "${PROJECT_SOURCE_DIR}/include")  # as the units' own flags
  if(NOT WEFT_DOCTEST_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    list(APPEND flags -isystem "${WEFT_DOCTEST_DIR}")
  endif()
  add_custom_command(OUTPUT "${gch}" "${gch}.sum"
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} -x c++-header "${header}" -o "${gch}" -MD -MT "${gch}" -MF "${gch}.d"
    COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/check/text_sum.sh" "${gch}.sum" ${CMAKE_CXX_COMPILER} ${flags} -x c++-header "${header}"
    DEPENDS "${header}" DEPFILE "${gch}.d" VERBATIM
    COMMENT "Precompiling <weft/weft.hpp> for units")
  add_custom_target(weft_precompiled_gnu_units DEPENDS "${gch}")
endif()

# weft_own_macros(OUT UNIT): whether a unit defines macros.
function(weft_own_macros out source)
  file(STRINGS "${source}" own_macros REGEX "^ *# *define")
  set(${out} "${own_macros}" PARENT_SCOPE)
endfunction()

# weft_precompiled(TARGET UNIT...): these units of TARGET begin with the precompiled header.
function(weft_precompiled target)
  if(TARGET weft_precompiled_gnu_units AND NOT target MATCHES "^test_golden$|_cuda$")  # golden's are compiled in place
    add_dependencies(${target} weft_precompiled_gnu_units)
    set(header "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp")
    foreach(source IN LISTS ARGN)
      weft_own_macros(own_macros "${source}")
      if(NOT own_macros)
        set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${header}.gch")
        set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -Winvalid-pch -include "${header}")
      endif()
    endforeach()
  endif()
  if(NOT TARGET weft_precompiled_units)
    return()
  endif()
  set(pch "${CMAKE_CURRENT_BINARY_DIR}/precompiled/units/all.hpp.pch")
  add_dependencies(${target} weft_precompiled_units)
  target_link_libraries(${target} PRIVATE "${pch}.o")
  target_link_options(${target} PRIVATE -Wl,--gc-sections)  # all inline functions are in it, and one calls what libstdc++ doesn't export
  foreach(source IN LISTS ARGN)
    weft_own_macros(own_macros "${source}")
    if(own_macros)
      continue()
    endif()
    set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${pch}")
    set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -include-pch "${pch}" ${weft_pch_flags})
  endforeach()
endfunction()
