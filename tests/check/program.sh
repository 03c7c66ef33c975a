#!/usr/bin/env bash
# program.sh PROGRAM COMPILER [FLAG | SOURCE | -lLIBRARY]...: compiles a test's own program, each source through ccache where the build found it
# (WEFT_CCACHE): what one run compiled, the next, and another checkout, finds.
# COMPILER `quick`: whatever is quickest, for what has to run and no more: clang without optimisation behind the precompiled header of
# precompiled.cmake (WEFT_PCH, of which its compiler is WEFT_PCH_CXX), with the library of weft::compiled (WEFT_COMPILED_LIBRARY), as the build
# made them; else CXX. A launch's `check` is then off, as with optimisation.
set -euo pipefail
program=$1 compiler=$2
shift 2
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
flags=() made=() libraries=()
if [ "$compiler" = quick ]; then
  compiler=${CXX:-g++} flags=(-std=c++20 -O0 -DWEFT_CHECK=0 -pthread)
  if [ -n "${WEFT_PCH:-}" ]; then
    compiler=$WEFT_PCH_CXX libraries=("$WEFT_PCH.o" "$WEFT_COMPILED_LIBRARY" -Wl,--gc-sections)
    flags+=(-DWEFT_COMPILED -include-pch "$WEFT_PCH" -fpch-instantiate-templates -fpch-codegen)
  fi
fi
for word; do
  case $word in *.cpp | *.c) ;; -l*) libraries+=("$word") ;; *) flags+=("$word") ;; esac
done
for word; do
  case $word in
    *.cpp | *.c)
      made+=("$objects/${#made[@]}.o")
      ${WEFT_CCACHE:-} "$compiler" "${flags[@]}" -c "$word" -o "${made[-1]}"
      ;;
  esac
done
"$compiler" -pthread "${made[@]}" "${libraries[@]}" -o "$program"
