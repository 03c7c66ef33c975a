#!/usr/bin/env bash
# A save that is killed, or whose disk is full or breaks, at every call by which it makes or changes files: afterwards the old
# checkpoint loads, the new one is whole or isn't there, an error is said, and the next save succeeds.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-gcc}" -shared -fPIC -O1 "$here/tests/train/killed/shim.c" -o "$work/shim.so" -ldl
bash "$here/tests/check/program.sh" "$work/program" quick -I"$here/include" "$here/tests/train/killed/program.cpp"
cd "$work"

./program first old
LD_PRELOAD=./shim.so WEFT_SHIM_COUNT=count ./program next new old
calls=$(cat count) old=$(./program loss old) new=$(./program loss new)
[ "$calls" -ge 40 ] && [ "$old" != "$new" ] || { echo "FAULT: $calls calls, losses $old and $new"; exit 1; }
points=0 whole=0
step=3 from=0  # every third call, of each way another; all of them where all is asked for
[ "${WEFT_TEST_ALL:-}" != yes ] || step=1
fault() { echo "FAULT: $how at call $at of $calls: $*"; cat said; exit 1; }
for how in kill fail short; do
  from=$((from % step + 1))
  for at in $(seq $from $step $((calls + 4))); do
    points=$((points + 1))
    rm -rf new*
    code=0
    LD_PRELOAD=./shim.so WEFT_SHIM_AT=$at WEFT_SHIM_HOW=$how ./program next new old >said 2>&1 || code=$?
    [ "$(./program loss old)" = "$old" ] || fault "the old checkpoint is lost"
    if [ -e new ]; then
      whole=$((whole + 1))
      [ "$(./program loss new 2>&1)" = "$new" ] || fault "the new checkpoint is broken"
    else
      [ $code != 0 ] || fault "nothing was saved, and nothing said"
      ./program next new old >again 2>&1 || fault "it can't be saved again"
    fi
    # A call that fails is said with its file, unless nothing hangs on it (closing what was synced).
    [ $how = kill ] || [ $code = 0 ] || grep -q -E "the (file|folder) .*: [A-Z]|the folder .*; " said || fault "its error names no file"
  done
done
echo "$points points, $whole of them with the new checkpoint"
[ $whole -gt 3 ] && [ $whole -lt $points ]
