# Every header compiles alone; all of them together, in two translation units, make one program; includes keep their order.
set(include_dir "${PROJECT_SOURCE_DIR}/include")
set(generated "${CMAKE_CURRENT_BINARY_DIR}/headers")
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${include_dir}" "${include_dir}/weft/*.hpp")
list(SORT headers)

foreach(header IN LISTS headers)
  string(REGEX REPLACE "^weft/" "" name "${header}")
  add_test(NAME header/${name} COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -Wall -Wextra -Wpedantic -Wshadow
    -Wconversion -Wsign-conversion -Werror -fsyntax-only
    -I "${include_dir}" -x c++ -include ${header} /dev/null)
endforeach()

# The second unit includes in reverse order, so that no header lives on what another left behind.
set(forward "")
set(backward "")
foreach(header IN LISTS headers)
  string(APPEND forward "#include <${header}>\n")
  string(PREPEND backward "#include <${header}>\n")
endforeach()
file(CONFIGURE OUTPUT "${generated}/first.cpp" CONTENT "${forward}int second();\nint main() { return second(); }\n" @ONLY)
file(CONFIGURE OUTPUT "${generated}/second.cpp" CONTENT "${backward}int second() { return 0; }\n" @ONLY)
add_executable(headers_twice "${generated}/first.cpp" "${generated}/second.cpp")
target_link_libraries(headers_twice PRIVATE weft_build)
target_compile_options(headers_twice PRIVATE -O0)
add_test(NAME header/twice_in_one_program COMMAND headers_twice)

if(WEFT_HAS_CUDA)
  file(GLOB_RECURSE cuda_headers CONFIGURE_DEPENDS RELATIVE "${include_dir}" "${include_dir}/weft/*.cuh")
  list(SORT cuda_headers)
  foreach(header IN LISTS cuda_headers)  # an object library per header, since nvcc has no -fsyntax-only
    string(MAKE_C_IDENTIFIER "${header}" name)
    file(CONFIGURE OUTPUT "${generated}/${name}.cu" CONTENT "#include <${header}>\n#include <${header}>\n" @ONLY)
    list(APPEND cuda_units "${generated}/${name}.cu")
  endforeach()
  if(cuda_headers)
    file(CONFIGURE OUTPUT "${generated}/main.cu" CONTENT "int main() { return 0; }\n" @ONLY)
    add_executable(cuda_headers_together ${cuda_units} "${generated}/main.cu")
    target_link_libraries(cuda_headers_together PRIVATE weft_build weft::cuda)
    add_test(NAME header/cuda_together_in_one_program COMMAND cuda_headers_together)
  endif()
endif()

add_test(NAME header/include_order COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/check/include_order.sh" "${PROJECT_SOURCE_DIR}")
