#!/usr/bin/env bash
# one_program.sh COMPILER FLAG... SOURCE SOURCE: whether these make one program, which returns 0.
set -euo pipefail
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$@" -O0 -pthread -o "$out/program"
"$out/program"
