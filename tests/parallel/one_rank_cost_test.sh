#!/usr/bin/env bash
# A mesh of one rank costs nothing: a training step of one model takes as many instructions on a mesh whose axes have one rank
# each as on a mesh without axes. The bound is 1 %; callgrind counts, so nothing is timed.
set -euo pipefail
if ! command -v valgrind >/dev/null; then
  echo "valgrind is not here (Debian: apt-get install valgrind)"
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"${CXX:-g++}" -std=c++20 -O2 -I"$WEFT_SOURCE_DIR/include" "$WEFT_SOURCE_DIR/tests/parallel/one_rank_cost.cpp" -o "$out/train" -pthread

# Instructions of two steps: those of three less those of one, so that starting costs nothing.
instructions() {
  local counted=()
  for steps in 1 3; do
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$out/train" "$1" "$steps" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
    counted+=("$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/log")")
  done
  echo $((counted[1] - counted[0]))
}
axes=$(instructions axes) none=$(instructions none)
echo "two steps: $axes instructions on a mesh of one rank, $none on a mesh without axes"
[ "$none" -gt 1000000 ] || { echo "FAULT: that is too few to be two steps"; exit 1; }
difference=$((axes > none ? axes - none : none - axes))
[ $((difference * 100)) -le "$none" ] || { echo "FAULT: they differ by more than 1 %"; exit 1; }
