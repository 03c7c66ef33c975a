#!/usr/bin/env bash
# tests/matrix/run.sh: trains every cell of the matrix (axes.hpp), compares each with one rank, and writes docs/matrix.md and docs/matrix_cells.txt. A program
# a model and precision, compiled and run in build/matrix; JOBS=n of them at a time (default 1). What an interrupted run has
# done is not done again, as long as no source has changed. Ends with an error if any cell is wrong or missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case ${1:-} in -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
compiler=${CXX:-g++} out=build/matrix
mkdir -p $out
state=$(find include tests/matrix -type f -name '*.?pp' -o -type f -name '*.inl' | LC_ALL=C sort | xargs cat | sha256sum)
models=$(sed -n 's|^// models: ||p' tests/matrix/axes.hpp)
precisions=$(sed -n 's|^using precisions = tag_list<\(.*\)>;|\1|p' tests/matrix/axes.hpp | tr -d ',')
[ -n "$models" ] && [ -n "$precisions" ] || { echo "run.sh: tests/matrix/axes.hpp names no models or no precisions"; exit 2; }

unit() {
  local model=$1 precision=$2 name=$out/$1-$2 begin=$SECONDS from
  if [ "$(cat "$name.state" 2>/dev/null)" != "$state" ]; then
    rm -f "$name.cells" "$name.state"
    "$compiler" -std=c++20 -O1 -Wall -Wextra -Iinclude -DWEFT_MATRIX_MODEL="$model" -DWEFT_MATRIX_PRECISION="$precision" \
      tests/matrix/sweep.cpp -o "$name" -pthread
    echo "$state" >"$name.state"
  fi
  touch "$name.cells"
  # What an interruption cut off is done again: a line, and the cells that belong together with it.
  awk -F'|' '$1 == "together" { n = $2 } NF < 17 && /^(cells|together|tolerance)\|/
    NF == 17 { held = held $0 "\n"; if (++got % n == 0) { printf "%s", held; held = "" } }' "$name.cells" >"$name.kept" && mv "$name.kept" "$name.cells"
  from=$(awk -F'|' 'NF == 17' "$name.cells" | wc -l)
  if [ "$from" = 0 ]; then
    timeout 7200 "$name" >"$name.cells" || true
  else
    timeout 7200 "$name" "$from" >>"$name.cells" || true
  fi
  echo "$model $precision: $(grep -c -E '\|(same|refused)\|' "$name.cells") of $(sed -n 's/^cells|//p' "$name.cells") cells good ($((SECONDS - begin)) s)"
}
running=0
for precision in $precisions; do
  for model in $models; do
    unit "$model" "$precision" &
    running=$((running + 1))
    if [ $running -ge "${JOBS:-1}" ]; then wait -n && running=$((running - 1)); fi
  done
done
wait

# What the compiler refuses: the wrong programs about strategies, and what it answers now.
for program in tests/compile_fail/policies/strategy_*.cpp tests/compile_fail/policies/sequence_parallel_without_tp.cpp; do
  wrong=$(awk '/^#ifdef WRONG/ { on = 1; next } /^#else/ { on = 0 } on && /strategy</' "$program" | head -n 1 | sed 's/^ *//')
  said=$("$compiler" -std=c++20 -DWRONG -fsyntax-only -Iinclude "$program" 2>&1 | sed -n 's/.*error: .*\(weft: .*\)/\1/p' | head -n 1 || true)
  printf '%s|%s\n' "$wrong" "$said"
done >$out/refused_by_compiler

cat $out/*-*.cells | awk -v compiler="$("$compiler" --version | head -n 1)" -v date="$(date -u +%F)" -v refused=$out/refused_by_compiler -v record=$out/matrix_cells.txt \
  -f tests/matrix/report.awk >$out/matrix.md || { cat $out/matrix.md; exit 1; }
cp $out/matrix.md $out/matrix_cells.txt docs
sed -n '/^\*\*/p' docs/matrix.md
