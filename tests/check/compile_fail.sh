#!/usr/bin/env bash
# compile_fail.sh [--wrong | --first] COMPILER [PRECOMPILED] FILE: one wrong program and the sentence that the compiler must answer.
# FILE begins with one or more lines `// expect: SENTENCE`; the wrong lines stand in `#ifdef WRONG`, the right ones in
# its `#else`. The right version must compile, without warnings. The wrong one (-DWRONG) must not: the first SENTENCE
# must stand in the compiler's first error, word for word, the others in its output, and that is 40 lines at most.
# Several wrong versions of one kind: `#if WRONG == 1 ... #elif WRONG == 2 ...` within `#ifdef WRONG`, each of which is
# compiled (nvcc: the first); `// expect 2: SENTENCE` then has to be in the first error of the second one too.
# `// shows: TEXT` has to be in what g++ and clang say, which print the types that a sentence is about; nvcc doesn't.
# PRECOMPILED is a header that includes <weft/weft.hpp> with its precompiled form beside it; it is used only for a FILE that
# includes <weft/weft.hpp>.
# --wrong leaves the right version out: right_versions.sh compiles those of all programs at once. --first asks for the first wrong one alone.
# nvcc compiles FILE as CUDA, up to the host compiler's turn: its own front end has to answer.
set -euo pipefail
right=yes first=''
case $1 in
  --wrong) right='' && shift ;;
  --first) right='' first=yes && shift ;;
esac
compiler=$1 precompiled='' file=${!#}
[ $# -lt 3 ] || precompiled=$2
include="$(dirname "${BASH_SOURCE[0]}")/../../include"
work=$(mktemp -d)
out=$work/out
trap 'rm -rf "$work"' EXIT

mapfile -t sentences < <(awk '/^\/\/ expect: /{ sub(/^\/\/ expect: +/, ""); print; next } /^\/\/ (expect [0-9]+|shows): / { next } { exit }' "$file")
if [ ${#sentences[@]} = 0 ] || [ -z "${sentences[0]}" ]; then
  echo "$file:1: the first line is not '// expect: SENTENCE'"
  exit 1
fi
if ! grep -q '^#ifdef WRONG' "$file" || ! grep -q '^#else' "$file"; then
  echo "$file: there is no '#ifdef WRONG ... #else ... #endif' in it"
  exit 1
fi

strict=(-Werror)
if [ "$(basename "$compiler")" = nvcc ]; then
  command=("$compiler" -x cu -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -arch=sm_90 -I "$include"
    -cuda -o "$work/front.ii")
  strict=()
else
  command=("$compiler" -std=c++20 -Wall -Wextra -fsyntax-only -I "$include")
fi
if [ -n "$precompiled" ] && grep -q '^#include <weft/weft.hpp>' "$file"; then
  command+=(-include "$precompiled")
fi

if [ -n "$right" ] && ! "${command[@]}" "${strict[@]}" "$file" >"$out" 2>&1; then
  echo "$file: the right version does not compile (${command[*]} ${strict[*]}):"
  head -n 100 "$out"
  exit 1
fi
ways=$(grep -cE '^#(el)?if WRONG ==' "$file" || true)
[ "$ways" -gt 0 ] && [ -z "$first" ] && [ "$(basename "$compiler")" != nvcc ] || ways=1
for ((way = 1; way <= ways; ++way)); do
  if "${command[@]}" -DWRONG=$way "$file" >"$out" 2>&1; then
    echo "$file: the wrong version compiles (${command[*]} -DWRONG=$way)"
    exit 1
  fi
  fault=
  for sentence in "${sentences[@]}"; do
    grep -qF -- "$sentence" "$out" || fault="but not with: $sentence"
  done
  if [ -z "$fault" ] && ! grep -m1 'error' "$out" | grep -qF -- "${sentences[0]}"; then
    fault="but the first error is not: ${sentences[0]}"
  fi
  while read -r sentence; do
    [ -n "$fault" ] || grep -m1 'error' "$out" | grep -qF -- "$sentence" || fault="but the first error is not: $sentence"
  done < <(sed -n "s/^\/\/ expect $way: *//p" "$file")
  while read -r text; do
    [ "$(basename "$compiler")" = nvcc ] || grep -qF -- "$text" "$out" || fault="but doesn't show: $text"
  done < <(sed -n 's/^\/\/ shows: *//p' "$file")
  # How a header was reached says how deep it lies, not what is wrong.
  lines=$(grep -vcE '^(In file included| +) from ' "$out")
  if [ -z "$fault" ] && [ "$lines" -gt 40 ]; then
    fault="but in $lines lines, more than 40"
  fi
  if [ -n "$fault" ]; then
    echo "$file: the wrong version is refused (-DWRONG=$way), $fault"
    echo "The compiler said:"
    head -n 100 "$out"
    exit 1
  fi
done
