#!/usr/bin/env bash
# What the library costs its users' compiler stays within its budgets (bench/compile_time/run.sh): the umbrella header 1.0 s
# over its standard headers, the first example 5 s, the quickstart's trainer 2.5 times as long as that, a test unit 60 s and
# 2 GB; the trainer where all is asked for. Memory is judged exactly. Seconds are user seconds, scaled by the standard headers' own, and fail half above the budget; those of test units come from the log of the build,
# when many compiled at once, and fail at twice the budget: a busy machine must not fail, a doubling must.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
[ -x /usr/bin/time ] || { echo "GNU time is not here (Debian: apt-get install time)"; exit 77; }
run="bash bench/compile_time/run.sh"
export CXX=${CXX:-g++}

# refuses SENTENCE LINE: a log with this line besides a good one is refused for this reason.
made=$(mktemp)
trap 'rm -f "$made"' EXIT
refuses() {
  printf '10.00 500000 %s\n%s\n' "$PWD/tests/core/dtype_test.cpp" "$2" >"$made"
  if $run --log "$made" --check >"$made.out"; then echo "accepted, and should be refused: $2"; exit 1; fi
  grep -qF "$1" "$made.out" || { cat "$made.out"; echo "refused, but not with '$1'"; exit 1; }
  rm -f "$made.out"
}
refuses 'the budget is 2048 MB' "12.00 2200000 $PWD/tests/core/rule_test.cpp"
if grep -qF " $("$CXX" --version | sed -n '1s/[^ ]* //p')" bench/compile_time/baseline.txt; then
  refuses 'its budget is 60 s' "125.00 900000 $PWD/tests/core/rule_test.cpp"
fi

# A build whose test units all come from the compiler cache logs others, or nothing: there is nothing to judge.
for logged in "9.00 500000 $PWD/tests/main.cpp" ''; do
  printf '%s' "$logged" >"$made"
  $run --log "$made" --check | grep -q '^note: .* the compiler cache answered for all of them$' ||
    { echo "a log without a test unit is not passed over"; exit 1; }
done

log="$WEFT_BINARY_DIR/compile_times.txt"
if [ -f "$log" ]; then
  $run --log "$log" --check
else
  echo "note: $log is not there: this build's generator knows no RULE_LAUNCH_COMPILE, or GNU time came later"
fi
# Measured once for the same files and packages.
bash tests/check/remembered.sh bench examples docs -- $run --check $([ "${WEFT_TEST_ALL:-}" = yes ] || echo --first)
