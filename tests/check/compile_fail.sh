#!/usr/bin/env bash
# compile_fail.sh COMPILER PRECOMPILED FILE: one wrong program and the sentence that the compiler must answer.
# FILE begins with one or more lines `// expect: SENTENCE`; the wrong lines stand in `#ifdef WRONG`, the right ones in
# its `#else`. The right version must compile, without warnings. The wrong one (-DWRONG) must not, and every SENTENCE
# must stand in the compiler's output, word for word. PRECOMPILED is a header that includes <weft/weft.hpp> with its
# precompiled form beside it, or ''; it is used only for a FILE that includes <weft/weft.hpp>.
# nvcc compiles FILE as CUDA, up to the host compiler's turn: its own front end has to answer.
set -euo pipefail
compiler=$1 precompiled=$2 file=$3
include="$(dirname "${BASH_SOURCE[0]}")/../../include"
work=$(mktemp -d)
out=$work/out
trap 'rm -rf "$work"' EXIT

mapfile -t sentences < <(awk '/^\/\/ expect: /{ sub(/^\/\/ expect: +/, ""); print; next } { exit }' "$file")
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

if ! "${command[@]}" "${strict[@]}" "$file" >"$out" 2>&1; then
  echo "$file: the right version does not compile (${command[*]} ${strict[*]}):"
  head -n 100 "$out"
  exit 1
fi
if "${command[@]}" -DWRONG "$file" >"$out" 2>&1; then
  echo "$file: the wrong version compiles (${command[*]} -DWRONG)"
  exit 1
fi
for sentence in "${sentences[@]}"; do
  if ! grep -qF -- "$sentence" "$out"; then
    echo "$file: the wrong version is refused, but not with: $sentence"
    echo "The compiler said:"
    head -n 100 "$out"
    exit 1
  fi
done
