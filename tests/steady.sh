#!/usr/bin/env bash
# tests/steady.sh N [PRESET...]: whether the tests that run programs (label `run`) depend on luck: those of presets (release units, which
# together have all, built as run.sh builds them) N times, in another order each time, while something else keeps every core busy.
# Builds first. What fails once is listed; the logs stay in build/<preset>/steady/<commit>, where a run that was ended goes on.
# JOBS=n sets how many tests run at once (default: nproc).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${1:?how many rounds}
shift
[ $# -gt 0 ] || set -- release units
commit=$(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo +)
for preset; do
  part=()
  [ "$preset" != release ] || part=(-DWEFT_TEST_PART=rest -DWEFT_BUILD_BENCH=OFF)
  mkdir -p "build/$preset/steady/$commit"
  cmake --preset "$preset" "${part[@]}" >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
  cmake --build "build/$preset" -j "$(nproc)" >"build/$preset/build.log" 2>&1 || { tail -n 50 "build/$preset/build.log"; exit 1; }
done
busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for ((i = 0; i < $(nproc); ++i)); do
  while :; do :; done &
  busy+=($!)
done
failed=0
for ((round = 1; round <= rounds; ++round)); do
  good=yes
  for preset; do
    log="build/$preset/steady/$commit/$round.log"
    if ! grep -q 'Total Test time' "$log" 2>/dev/null; then
      ctest --preset "$preset" -L '^run$' --schedule-random -j "${JOBS:-$(nproc)}" --output-on-failure >"$log" 2>&1
    fi
    echo "round $round, $preset: $(grep -E 'tests passed' "$log" || echo 'no test ran')"
    grep -E '^\s+[0-9]+ - .*\((Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run)\)' "$log" | sed 's/^[^-]*- //'
    grep -q '^100% tests passed' "$log" || good=no
  done
  [ $good = yes ] || failed=$((failed + 1))
done
echo "$((rounds - failed)) rounds passed, $failed failed"
[ $failed = 0 ]
