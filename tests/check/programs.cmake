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
