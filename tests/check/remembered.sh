#!/usr/bin/env bash
# remembered.sh [INPUT... --] COMMAND...: a check whose answer follows from files and compilers alone, as whether a program is
# refused or a header compiles. It is run, unless it has passed on this machine, in whichever checkout, with the same files and the
# same packages: what compiles is compiled once. Its files: include/, cmake/, CMakeLists.txt and presets, tests/check/, the INPUTs
# (folders or files of this tree), and those that the command names.
# What passed lies below ${XDG_CACHE_HOME:-~/.cache}/weft/passed, an empty file each. WEFT_REMEMBER=no: everything is run.
# `remembered.sh --tree` prints the hash of what is the same for all checks; in WEFT_TREE it is not computed again.
set -uo pipefail
root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
cd "$root" || exit 1

# contents PATH...: the names, below the root, and contents of files.
contents() { find -L "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum; }
tree() {
  {
    contents include cmake CMakeLists.txt CMakePresets.json tests/check
    grep -m1 '^model name' /proc/cpuinfo 2>/dev/null
    dpkg-query -W 2>/dev/null || { g++ --version; clang++ --version; } 2>&1
    nvcc --version 2>/dev/null
  } | sha256sum | cut -c1-32
}
if [ "${1:-}" = --tree ]; then tree; exit; fi

inputs=()
for word; do
  [ "$word" = -- ] || continue
  while [ "$1" != -- ]; do inputs+=("$1") && shift; done
  shift
  break
done
[ "${WEFT_REMEMBER:-yes}" != no ] || exec "$@"

files=("${inputs[@]}") words=''
for word; do
  words+="${word//"$root"/} "
  case $word in "$root"/*) [ ! -f "$word" ] || [[ $word == "$root"/build/* ]] || files+=("${word#"$root"/}") ;; esac
done
tree=${WEFT_TREE:-$(tree)}
key=$({ echo "$words ${CXX:-}"; [ ${#files[@]} = 0 ] || contents "${files[@]}"; } | sha256sum | cut -c1-32)
folder="${XDG_CACHE_HOME:-$HOME/.cache}/weft/passed/$tree"
if [ -e "$folder/$key" ]; then
  echo "remembered: it has passed with these files and packages"
  exit 0
fi
"$@" || exit
mkdir -p "$folder" && : >"$folder/$key"
