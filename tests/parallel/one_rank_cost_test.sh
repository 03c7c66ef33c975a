#!/usr/bin/env bash
# A mesh of one rank costs nothing: a training step of one model takes as many instructions on a mesh whose axes have one rank
# each as on a mesh without axes. Callgrind counts, so nothing is timed. The bound is 0.3 % with the portable kernels, which
# take three times the instructions of AVX2's (whose fused multiply-adds valgrind computes slowly): about 1 % of a step with
# those. The program links weft::compiled where the build made it; where all is asked for, it has everything in place.
set -euo pipefail
if ! command -v valgrind >/dev/null || [ ! -f /usr/include/valgrind/callgrind.h ]; then
  echo "valgrind with its headers is not here (Debian: apt-get install valgrind)"
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
linked=()
[ "${WEFT_TEST_ALL:-}" = yes ] || [ -z "${WEFT_COMPILED_LIBRARY:-}" ] || linked=(-DWEFT_COMPILED "$WEFT_COMPILED_LIBRARY")
"${CXX:-g++}" -std=c++20 -O2 -I"$WEFT_SOURCE_DIR/include" "$WEFT_SOURCE_DIR/tests/parallel/one_rank_cost.cpp" -o "$out/train" -pthread "${linked[@]}"

# Instructions of two steps.
instructions() {
  WEFT_ISA=portable valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file=/dev/null "$out/train" "$1" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/log"
}
axes=$(instructions axes) none=$(instructions none)
echo "two steps: $axes instructions on a mesh of one rank, $none on a mesh without axes"
[ "$none" -gt 1000000 ] || { echo "FAULT: that is too few to be two steps"; exit 1; }
difference=$((axes > none ? axes - none : none - axes))
[ $((difference * 1000)) -le $((3 * none)) ] || { echo "FAULT: they differ by more than 0.3 %"; exit 1; }
