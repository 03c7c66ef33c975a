#!/usr/bin/env bash
# The source folder inside another project: it brings no tests, examples, install rules or CUDA with it.
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
consume add_subdirectory -DWEFT_SOURCE_DIR="$WEFT_SOURCE_DIR"
for option in BUILD_TESTS BUILD_EXAMPLES BUILD_BENCH INSTALL CUDA; do
  grep -qE "^WEFT_$option:[A-Z]+=OFF$" "$out/build/CMakeCache.txt" || { echo "FAULT: WEFT_$option is not off"; exit 1; }
done
