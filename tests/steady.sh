#!/usr/bin/env bash
# tests/steady.sh N [PRESET]: whether the tests that run programs (label `run`) depend on luck: N times those of a preset (release), in
# another order each time, while something else keeps every core busy. Builds first. What fails once is listed; the order of
# round K is drawn from K alone as far as ctest draws it, and the logs stay in build/<preset>/steady.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${1:?how many rounds}
preset=${2:-release}
dir="build/$preset"
cmake --preset "$preset" >/dev/null && cmake --build "$dir" -j "$(nproc)" >"$dir/build.log" 2>&1 || { tail -n 50 "$dir/build.log"; exit 1; }
rm -rf "$dir/steady"
mkdir -p "$dir/steady"
busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for ((i = 0; i < $(nproc); ++i)); do
  while :; do :; done &
  busy+=($!)
done
failed=0
for ((round = 1; round <= rounds; ++round)); do
  log="$dir/steady/$round.log"
  ctest --preset "$preset" -L '^run$' --schedule-random -j "$(nproc)" --output-on-failure >"$log" 2>&1 || failed=$((failed + 1))
  echo "round $round: $(grep -E 'tests passed|No tests' "$log")"
  grep -E '^\s+[0-9]+ - .*\((Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run)\)' "$log" | sed 's/^[^-]*- //'
done
echo "$((rounds - failed)) rounds passed, $failed failed"
[ $failed = 0 ]
