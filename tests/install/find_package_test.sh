#!/usr/bin/env bash
# Installed, moved, found by find_package; every header of the repository is there; a version too new is refused.
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
install_to "$out/prefix"
diff -r "$WEFT_SOURCE_DIR/include" "$out/prefix/include"
[ ! -x "$WEFT_BINARY_DIR/examples/weft-tokenize" ] || "$out/prefix/bin/weft-tokenize" --version | grep -q 'of Weft 0.1'
consume find_package -DCMAKE_PREFIX_PATH="$out/prefix"

if grep -rlF -e "$WEFT_SOURCE_DIR" -e "$WEFT_BINARY_DIR" -e "$out" "$out/prefix"; then
  echo "FAULT: these installed files name the machine they were built on"
  exit 1
fi
sed 's/find_package(weft 0.1/find_package(weft 0.9/' "$here/find_package/CMakeLists.txt" >"$out/CMakeLists.txt"
if cmake -S "$out" -B "$out/refused" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_PREFIX_PATH="$out/prefix" >"$out/log" 2>&1; then
  echo "FAULT: a project that asks for version 0.9 was given this one"
  exit 1
fi
grep -q 'version "0.9"' "$out/log"
