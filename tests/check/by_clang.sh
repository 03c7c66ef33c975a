#!/usr/bin/env bash
# by_clang.sh CLANG HEADER [LAUNCHER...] -- COMPILER ARGUMENT...: what CMake asks COMPILER for, compiled by clang without optimisation behind the
# precompiled HEADER of programs.cmake, in less than half the time. As a launcher of compilers, of one target.
set -euo pipefail
clang=$1 header=$2
shift 2
launcher=()
while [ "$1" != -- ]; do
  [ -z "$1" ] || launcher+=("$1")  # a build without a cache has none
  shift
done
exec "${launcher[@]}" "$clang" "${@:3}" -O0 -DWEFT_CHECK=0 -pthread -include-pch "$header" -fpch-instantiate-templates -fpch-codegen
