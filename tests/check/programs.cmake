# What the tests' own scripts compile by check/program.sh with: `for_programs`, their environment. clang, where it is found, has a
# precompiled header for them.
set(for_programs "CXX=${CMAKE_CXX_COMPILER}")
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
endif()
