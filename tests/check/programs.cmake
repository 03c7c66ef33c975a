# What the tests' own scripts compile with: `for_programs`, their environment. check/program.sh has a precompiled header for clang, where
# it is found; who asks g++ or clang for its words alone has that of wrong programs (compilers.cmake), WEFT_PRECOMPILED/<compiler>/all.hpp.
set(for_programs "CXX=${CMAKE_CXX_COMPILER}" "WEFT_PRECOMPILED=${CMAKE_CURRENT_BINARY_DIR}/precompiled")
if(weft_cached)
  list(APPEND for_programs ${weft_cache_settings} "WEFT_CCACHE=${WEFT_CCACHE}")
endif()
find_program(WEFT_CLANGXX NAMES clang++ clang++-14)
mark_as_advanced(WEFT_CLANGXX)
add_custom_target(weft_programs ALL)
file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/precompiled/programs")
if(WEFT_CLANGXX)
  weft_precompile(programs "${WEFT_CLANGXX}" "#include <weft/weft.hpp>\n" -O0 -pthread -DWEFT_CHECK=0 -DWEFT_COMPILED)
  add_dependencies(weft_programs weft_compiled weft_precompiled_programs)
  list(APPEND for_programs "WEFT_PCH=${CMAKE_CURRENT_BINARY_DIR}/precompiled/programs/all.hpp.pch" "WEFT_PCH_CXX=${WEFT_CLANGXX}"
    "WEFT_COMPILED_LIBRARY=$<TARGET_FILE:weft_compiled>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # whose library these programs link
    add_test(NAME check/lambda_names COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/check/lambda_names.sh" $<TARGET_FILE:weft_compiled>
      "${CMAKE_CURRENT_BINARY_DIR}/precompiled/programs/all.hpp.pch.o")
  endif()
endif()

# weft_as_programs(TARGET...): beside a build of units these targets are compiled by clang as those programs are; `weft_as_programs` says whether.
function(weft_as_programs)
  set(weft_as_programs OFF PARENT_SCOPE)
  if(NOT WEFT_CLANGXX OR WEFT_TEST_ALL OR NOT WEFT_TEST_PART STREQUAL "rest" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(weft_as_programs ON PARENT_SCOPE)
  set(script "${PROJECT_SOURCE_DIR}/tests/check/by_clang.sh")
  set(pch "${PROJECT_BINARY_DIR}/tests/precompiled/programs/all.hpp.pch")
  foreach(target IN LISTS ARGN)
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "bash;${script};${WEFT_CLANGXX};${pch};${CMAKE_CXX_COMPILER_LAUNCHER};--")
    add_dependencies(${target} weft_precompiled_programs)
    get_target_property(sources ${target} SOURCES)
    set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS "${pch}" "${script}")
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_link_libraries(${target} PRIVATE "${pch}.o")
      target_link_options(${target} PRIVATE -Wl,--gc-sections)
    endif()
  endforeach()
endfunction()
