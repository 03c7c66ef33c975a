#!/usr/bin/env bash
# Benches compile: by the compiler of check/program.sh's quick programs, to the end of its front end. The build with benches makes them.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
[ -n "${WEFT_PCH:-}" ] || { echo "skipped: no precompiled header (clang is not here)"; exit 77; }
[ -f /usr/include/benchmark/benchmark.h ] || { echo "skipped: Google Benchmark is not here (Debian: apt-get install libbenchmark-dev)"; exit 77; }
faults=0
for source in bench/runtime/*.cpp; do
  "$WEFT_PCH_CXX" -std=c++20 -O0 -DWEFT_CHECK=0 -pthread -DWEFT_COMPILED -include-pch "$WEFT_PCH" -fpch-instantiate-templates \
    -fpch-codegen -I include -Wall -Wextra -Werror -fsyntax-only "$source" || faults=$((faults + 1))
done
echo "$faults faults"
[ $faults = 0 ]
