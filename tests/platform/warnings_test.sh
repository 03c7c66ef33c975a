#!/usr/bin/env bash
# A user's warning flags: programs that instantiate most of the library compile without a warning, under g++ and clang; the examples
# under one of the two, but both where all is asked for.
# (tests/check/headers.cmake gives each header the same flags, alone.)
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
flags=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "note: $compiler is not here"; continue; }
  programs=(tests/platform/program.cpp "examples/$([ $compiler = g++ ] && echo 04_gpt2 || echo 03_own_loop).cpp")
  [ "${WEFT_TEST_ALL:-}" != yes ] || programs=(tests/platform/program.cpp examples/03_own_loop.cpp examples/04_gpt2.cpp)
  for program in "${programs[@]}"; do
    quietly "$compiler" -std=c++20 "${flags[@]}" -I "$WEFT_SOURCE_DIR/include" -fsyntax-only "$WEFT_SOURCE_DIR/$program"
  done
done
