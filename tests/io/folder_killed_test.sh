#!/usr/bin/env bash
# A save over a folder of another configuration that is killed, or fails, at every call by which it makes or changes files: who reads the
# folder finds the model of before or the new one, never the weights of one under the configuration of the other, or is told what to rename
# to have one of them; and the next save succeeds.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-gcc}" -shared -fPIC -O1 "$here/tests/train/killed/shim.c" -o "$work/shim.so" -ldl
bash "$here/tests/check/program.sh" "$work/program" quick -I"$here/include" "$here/tests/io/killed/program.cpp"
cd "$work"
mkdir before
./program save before/one 1 one
./program save before/many 1 many
./program save before/adapters 1 adapters
fault() { echo "FAULT: from $from to $to, $how at call $at of $calls: $*"; ls folder; cat said; exit 1; }
again() { rm -rf folder && cp -r "before/$from" folder; }
step=7 first=0 told=0 points=0  # every seventh call, of each way another; all of them where all is asked for
[ "${WEFT_TEST_ALL:-}" != yes ] || step=1
for way in 'one one' 'one many' 'many one' 'many many' 'adapters adapters'; do
  read -r from to <<<"$way"
  again
  LD_PRELOAD=./shim.so WEFT_SHIM_COUNT=count ./program save folder 2 "$to"
  calls=$(cat count) whole=0
  [ "$calls" -ge 12 ] && [ "$(./program read folder "$to")" = 2 ] || { echo "FAULT: $way: $calls calls"; exit 1; }
  for how in kill fail; do
    first=$((first % step + 1))
    for at in $(seq $first $step $((calls + 1))); do
      again
      points=$((points + 1)) code=0
      LD_PRELOAD=./shim.so WEFT_SHIM_AT=$at WEFT_SHIM_HOW=$how ./program save folder 2 "$to" >said 2>&1 || code=$?
      found=$(./program read folder "$to" 2>&1) || true
      if [[ $found == *" isn't there, since a save was killed"*"; save the model there again, or rename "* ]]; then
        [ $how = kill ] || fault "it isn't whole: $found"
        told=$((told + 1))
        words=${found##*or rename }
        while read -r a b; do mv "$a" "$b"; done < <(sed 's/ and /\n/g; s/ to / /g' <<<"$words")
        found=$(./program read folder "$to" 2>&1) || true
        [[ $found == [12] ]] || fault "renamed, it can't be read: $found"
      fi
      [[ $found == [12] ]] || fault "$found"
      [ "$found" = 1 ] || whole=$((whole + 1))
      [ $how = kill ] || [ $code != 0 ] || [ "$found" = 2 ] || fault "nothing was saved, and nothing said"
      ./program save folder 2 "$to" >said 2>&1 || fault "it can't be saved again"
      [ "$(./program read folder "$to")" = 2 ] || fault "saved again, it can't be read"
      ! compgen -G 'folder/*.unfinished' >/dev/null && ! compgen -G 'folder/*.before' >/dev/null || fault "files are left"
    done
  done
  [ $whole -gt 0 ] || fault "it was never new"
done
echo "$points points, after $told of which files had to be renamed"
[ $told -gt 0 ]
