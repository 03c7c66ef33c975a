# What compilers must say alike: wrong programs refused with their sentence, and the documentation's snippets. clang is asked
# for all wrong programs, g++ for every fourth of a topic, the first among them, and for every eighth page, and nvcc for the
# first program of four topics; WEFT_TEST_ALL asks clang and g++ for all, and nvcc, which takes ten seconds for one, for every
# third. Programs and snippets that are right are compiled many at once; WEFT_TEST_ALL compiles each alone too.
# <weft/weft.hpp> is precompiled once per compiler and shared by all these checks.
find_program(WEFT_GXX NAMES g++ g++-12)
mark_as_advanced(WEFT_GXX)
set(check_dir "${CMAKE_CURRENT_SOURCE_DIR}/check")
set(umbrella "${PROJECT_SOURCE_DIR}/include/weft/weft.hpp")
file(GLOB wrong_programs CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/*/*.cpp")
list(SORT wrong_programs)

# weft_every_fourth(OUT): of each topic's wrong programs the first, the fifth, ...
function(weft_every_fourth out)
  set(before "")
  set(taken "")
  foreach(program IN LISTS wrong_programs)
    cmake_path(GET program PARENT_PATH topic)
    if(NOT topic STREQUAL before)
      set(before "${topic}")
      set(number 0)
    endif()
    if(number EQUAL 0)
      list(APPEND taken "${program}")
    endif()
    math(EXPR number "(${number} + 1) % 4")
  endforeach()
  set(${out} "${taken}" PARENT_SCOPE)
endfunction()

# weft_wrong_program(PROGRAM COMPILER_NAME COMMAND...): its entry.
function(weft_wrong_program program name)
  cmake_path(RELATIVE_PATH program BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE short)
  string(REGEX REPLACE "[.]cpp$" "" short "${short}")
  add_test(NAME ${short}/${name} COMMAND ${remembered} bash "${check_dir}/compile_fail.sh" ${ARGN} "${program}")
endfunction()

file(GLOB_RECURSE pages CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
if(EXISTS "${PROJECT_SOURCE_DIR}/README.md")
  list(PREPEND pages "${PROJECT_SOURCE_DIR}/README.md")
endif()

foreach(name IN ITEMS g++ clang++)
  if(name STREQUAL "g++")
    set(compiler "${WEFT_GXX}")
    set(suffix gch)
    set(instantiate "")
  else()
    set(compiler "${WEFT_CLANGXX}")
    set(suffix pch)
    set(instantiate -fpch-instantiate-templates)  # once, and not in each program
  endif()
  if(NOT compiler)
    add_test(NAME compile_fail/${name} COMMAND bash -c "echo 'skipped: ${name} is not installed'; exit 77")
    set_tests_properties(compile_fail/${name} PROPERTIES SKIP_RETURN_CODE 77)
    continue()
  endif()

  set(precompiled "")
  if(EXISTS "${umbrella}" AND (wrong_programs OR pages))
    set(precompiled "${CMAKE_CURRENT_BINARY_DIR}/precompiled/${name}/all.hpp")
    file(CONFIGURE OUTPUT "${precompiled}" CONTENT "#include <weft/weft.hpp>\n" @ONLY)
    add_custom_command(OUTPUT "${precompiled}.${suffix}"
      COMMAND ${compiler} -std=c++20 -Wall -Wextra ${instantiate} -I "${PROJECT_SOURCE_DIR}/include" -x c++-header "${precompiled}"
        -o "${precompiled}.${suffix}" -MD -MT "${precompiled}.${suffix}" -MF "${precompiled}.d"
      DEPENDS "${precompiled}" DEPFILE "${precompiled}.d" VERBATIM
      COMMENT "Precompiling <weft/weft.hpp> with ${name}")
    string(MAKE_C_IDENTIFIER "precompiled_${name}" target)
    add_custom_target(${target} ALL DEPENDS "${precompiled}.${suffix}")
  endif()

  set(wrong_alone --wrong)
  if(WEFT_TEST_ALL)
    set(wrong_alone "")
  elseif(name STREQUAL "g++")
    set(wrong_alone --first)
  endif()
  add_test(NAME compile_fail/right_versions/${name}
    COMMAND ${remembered} bash "${check_dir}/right_versions.sh" "${compiler}" "${precompiled}" ${wrong_programs})
  set(asked ${wrong_programs})
  if(name STREQUAL "g++" AND NOT WEFT_TEST_ALL)
    weft_every_fourth(asked)
  endif()
  foreach(program IN LISTS asked)
    weft_wrong_program("${program}" ${name} ${wrong_alone} "${compiler}" "${precompiled}")
  endforeach()
  # What is right on a page is compiled to be run, below, by clang.
  set(wrong_snippets "")
  if(name STREQUAL "clang++")
    set(wrong_snippets ${wrong_alone})
  endif()
  set(number 0)
  foreach(page IN LISTS pages)
    cmake_path(RELATIVE_PATH page BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE short)
    file(STRINGS "${page}" has_wrong REGEX "^```cpp wrong")
    math(EXPR number "(${number} + 1) % 8")
    set(only ${wrong_snippets})
    if(number AND NOT WEFT_TEST_ALL)
      set(only --wrong)
    endif()
    if(has_wrong OR NOT only)
      add_test(NAME snippets/${short}/${name}
        COMMAND ${remembered} bash "${check_dir}/snippets.sh" ${only} "${compiler}" "${precompiled}" "${page}")
    endif()
  endforeach()
endforeach()

# What the pages show is run too.
foreach(page IN LISTS pages)
  cmake_path(RELATIVE_PATH page BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE short)
  add_test(NAME pages/${short} COMMAND bash "${check_dir}/run_page.sh" quick "${page}")
  set_tests_properties(pages/${short} PROPERTIES TIMEOUT 600 ENVIRONMENT "${for_programs};PAGES=${CMAKE_CURRENT_BINARY_DIR}/precompiled/programs")
endforeach()

# nvcc has a front end of its own, and no precompiled headers.
if(WEFT_HAS_CUDA)
  set(asked ${wrong_programs})
  set(wrong_alone "")
  if(WEFT_TEST_ALL)
    set(number 2)
    foreach(program IN LISTS wrong_programs)
      math(EXPR number "(${number} + 1) % 3")
      if(number)
        list(REMOVE_ITEM asked "${program}")
      endif()
    endforeach()
  else()
    list(FILTER asked INCLUDE REGEX "/(conversions/all_gather_of_whole|formulas/formula_flags|sums/missing_all_reduce|tensors/tensor_from_slice)[.]cpp$")
    set(wrong_alone --wrong)  # a right one takes thrice as long
    add_test(NAME compile_fail/right_versions/nvcc COMMAND ${remembered} bash "${check_dir}/right_versions.sh" "${WEFT_NVCC}" "" ${asked})
  endif()
  foreach(program IN LISTS asked)
    weft_wrong_program("${program}" nvcc ${wrong_alone} "${WEFT_NVCC}")
  endforeach()
endif()

add_test(NAME check/self COMMAND ${remembered} bash "${check_dir}/self.sh" "${CMAKE_CXX_COMPILER}")
