#!/usr/bin/env bash
# reached.sh BUILD_FOLDER BRANCH: which tests the changes since BRANCH can reach, committed or not, as a file for `ctest -I`:
# units that include a changed file (as the build has noted), changed pages and wrong programs, changed headers alone; where
# a header of the library changed the wrong programs, and always what checks the tree.
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
base=$(git merge-base "$2" HEAD 2>/dev/null || git rev-parse HEAD)
changed=$( (git diff --name-only "$base"; git ls-files --others --exclude-standard) | sort -u)
[ -n "$changed" ] || { echo "nothing has changed since $2" >&2; echo '0,0,0'; exit; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "$changed" >"$work/changed"
# What the build has noted: an object's line, then its files, by their path from the build folder or absolute.
ninja -C "$build" -t deps | awk -v root="$PWD/" -v up="../../" '
  function ended() { if (hit) printf "%s", sources; hit = 0; sources = "" }
  FNR == NR { is_changed[$0] = 1; next }
  /^[^ ]/ { ended(); next }
  {  # a unit behind a precompiled header has the files of that first, and its own last
    file = $1
    if (index(file, root) == 1) file = substr(file, length(root) + 1)
    else if (index(file, up) == 1) file = substr(file, length(up) + 1)
    if (file ~ /_test\.(cpp|cu)$/) sources = sources file "\n"
    if (file in is_changed) hit = 1
  }
  END { ended() }' "$work/changed" - | sort -u | sed -nE 's/^tests\/(.*)_test\.(cpp)$/\1/p; s/^tests\/(.*)_test\.cu$/\1.cu/p' >"$work/names"
while read -r file; do
  case $file in
    tests/compile_fail/*.cpp) sed 's/^tests\///; s/[.]cpp$/\//' <<<"$file" ;;
    tests/*_test.sh) sed 's/^tests\///; s/_test\.sh$//' <<<"$file" ;;
    include/*.hpp) echo "header/${file#include/weft/}" ;;
    README.md | docs/*.md) printf 'pages/%s\nsnippets/%s/\n' "$file" "$file" ;;
    examples/*) printf 'example/\nexamples/\n' ;;
    tests/mpi/*) echo mpi/ ;;
    tests/examples/* | tests/install/*) sed 's/^tests\///; s/\/.*/\//' <<<"$file" ;;  # what a folder's scripts share
  esac
done <"$work/changed" >>"$work/names"
if grep -q '^include/' "$work/changed"; then printf 'compile_fail/\nheader/twice_in_one_program\nheader/without_warnings\n'; fi >>"$work/names"
printf 'header/include_order\ndocs/\ncheck/\n' >>"$work/names"
# A name that ends in / is a folder's beginning.
ctest --test-dir "$build" -N | sed -n 's/^ *Test *#\([0-9]*\): \(.*\)$/\1 \2/p' | awk '
  FNR == NR { if (/\/$/) begin[$0] = 1; else whole[$0] = 1; next }
  {
    hit = $2 in whole
    for (b in begin) if (index($2, b) == 1) hit = 1
    sub(/\.[0-9]+$/, "", $2)
    if (hit || $2 in whole) out = out "," $1
  }
  END { print "0,0,0" out }' "$work/names" -
