#!/usr/bin/env bash
# timed.sh COMPILER ARGUMENTS...: compiles, and appends user seconds, KB and the source to the file that WEFT_COMPILE_TIMES names.
# ccache runs it (CCACHE_PREFIX) for what it has to compile.
source=''
for argument in "$@"; do
  case $argument in *.cpp) source=$(realpath "$argument") ;; esac
done
exec time -a -o "$WEFT_COMPILE_TIMES" -f "%U %M $source" "$@"
