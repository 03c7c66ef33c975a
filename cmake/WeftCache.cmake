# Compiles through ccache where it is found, with paths that don't depend on where this checkout lies: another clone or worktree
# on the same machine, whose build folder stands at the same place in it, compiles nothing again. WEFT_CACHE=OFF compiles all.
option(WEFT_CACHE "Compile through ccache, where it is found" ON)
find_program(WEFT_CCACHE ccache)
mark_as_advanced(WEFT_CCACHE)
set(weft_cached OFF)
if(WEFT_CACHE AND WEFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(weft_cached ON)
  # A precompiled header is known by the hash of its text (tests/check/precompiled.cmake).
  set(weft_cache_settings "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=true)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${weft_cache_settings} "${WEFT_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>)
endif()

# weft_time_compilations(FILE): the units of this folder are measured, user seconds, KB and source, where GNU time is found. What
# the cache answers isn't measured.
find_program(WEFT_GNU_TIME time)
mark_as_advanced(WEFT_GNU_TIME)
macro(weft_time_compilations file)
  if(WEFT_GNU_TIME AND weft_cached)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${weft_cache_settings} "WEFT_COMPILE_TIMES=${file}"
      "CCACHE_PREFIX=${PROJECT_SOURCE_DIR}/cmake/timed.sh" "${WEFT_CCACHE}")
  elseif(WEFT_GNU_TIME)
    set_property(DIRECTORY PROPERTY RULE_LAUNCH_COMPILE "${WEFT_GNU_TIME} -a -o \"${file}\" -f \"%U %M <SOURCE>\"")
  endif()
endmacro()
