#!/usr/bin/env bash
# right_versions.sh COMPILER PRECOMPILED FILE...: the right versions of all wrong programs compile, without warnings, as one unit in
# which each has a namespace of its own: one compilation in place of one a program. A fault is answered with the program's
# own line. PRECOMPILED: see compile_fail.sh, which compiles a program's right version alone, and has nvcc's front end too.
set -euo pipefail
compiler=$1 precompiled=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  echo '#include <weft/weft.hpp>'
  cat "$@" | grep '^#include' | sort -u
  number=0
  for file in "$@"; do
    number=$((number + 1))
    printf 'namespace program_%d {\n#line 1 "%s"\n' $number "$file"
    # Only the main of a program may end without a return.
    sed -E -e '/^#include/s/.*//' -e 's/^int main\(/inline void program(/' "$file"
    echo '}'
  done
} >"$work/all.cpp"
include="$(dirname "${BASH_SOURCE[0]}")/../../include"
if [ "$(basename "$compiler")" = nvcc ]; then
  command=("$compiler" -x cu -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -arch=sm_90 -I "$include" -cuda -o "$work/front.ii")
else
  command=("$compiler" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$include")
fi
if [ -n "$precompiled" ]; then command+=(-include "$precompiled"); fi
if ! "${command[@]}" "$work/all.cpp" >"$work/out" 2>&1; then
  echo "a right version does not compile beside the others (${command[*]}):"
  head -n 100 "$work/out"
  exit 1
fi
echo "$# right versions"
