#!/usr/bin/env bash
# tests/mutants/run.sh [NAME...]: whether the tests notice what is wrong. Each mutant of mutants.txt changes one line of the library;
# it is killed by a test of the release build that fails. First the tests of the folders that its line names, then all. Judged
# in a worktree of HEAD, build/mutants/tree; what is in build/mutants/judged isn't judged again, so a run that was ended goes on.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD here="$PWD/tests/mutants"
room="$root/build/mutants" tree="$root/build/mutants/tree" commit=$(git rev-parse HEAD)
mkdir -p "$room"
touch "$room/judged"
[ -e "$tree/.git" ] || git worktree add -f --detach "$tree" "$commit" >/dev/null || exit 1
git -C "$tree" checkout -q --detach -f "$commit" || exit 1

trim() { sed 's/^ *//; s/ *$//' <<<"$1"; }
judge() {  # judge NAME FILE FOLDERS EXPRESSION: appends its line to $room/judged
  local name=$1 file=$2 folders=$3 expression=$4 begin=$SECONDS by='' log="$room/$1.log"
  git -C "$tree" checkout -q -f "$commit"
  sed -i "$expression" "$tree/$file"
  if [ "$(git -C "$tree" diff --numstat | awk '{ print $1 ":" $2 }')" != 1:1 ]; then
    echo "$name: its expression doesn't change one line of $file: mend mutants.txt"
    return 1
  fi
  for tests in "--only $folders" --release; do
    # shellcheck disable=SC2086  # options
    if ! "$tree/tests/run.sh" $tests >"$log" 2>&1; then
      by=$(grep -hoE '[0-9]+ - [^ ]+ \((Failed|Timeout|SEGFAULT|Subprocess aborted|Not Run)\)|^-- .*does not build' "$log" | head -n 1)
      break
    fi
  done
  if [ -n "$by" ]; then
    echo "$name killed by ${by#* - }, $((SECONDS - begin)) s" | tee -a "$room/judged"
  elif [ "$tests" = --release ] && tail -n 1 "$log" | grep -q ', 0 failed$'; then
    echo "$name survived, $((SECONDS - begin)) s" | tee -a "$room/judged"
  else
    echo "$name: no test ran; see $log"
    return 1
  fi
}

failures=0 wanted=" $* "
while IFS='|' read -r name file folders expression; do
  name=$(trim "$name")
  case $name in '' | '#'*) continue ;; esac
  [ $# = 0 ] || [[ $wanted == *" $name "* ]] || continue
  grep -q "^$name " "$room/judged" && continue
  judge "$name" "$(trim "$file")" "$(trim "$folders")" "$(trim "$expression")" </dev/null || failures=$((failures + 1))
done <"$here/mutants.txt"
git -C "$tree" checkout -q -f "$commit"
echo "$(grep -c ' killed by ' "$room/judged") killed, $(grep -c ' survived' "$room/judged") survived, $failures not judged"
[ $failures = 0 ] && ! grep -q ' survived' "$room/judged"
