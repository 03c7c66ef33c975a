#!/usr/bin/env bash
# Saves that are killed, or whose disk is broken or full, at the calls by which they make or change files: checkpoints of four ranks, those
# of a run that removes its old ones, and folders of Hugging Face's that are written over. Afterwards the old loads or the new, an
# error is said, and the next save succeeds. Every seventh point; all of them where all is asked for. SCENARIO asks for one alone.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
work=$(mktemp -d)
[ ! -d /dev/shm ] || { rmdir "$work" && work=$(mktemp -d -p /dev/shm); }
trap 'rm -rf "$work"' EXIT
"${CC:-gcc}" -shared -fPIC -O1 "$here/tests/train/killed/shim.c" -o "$work/shim.so" -ldl
bash "$here/tests/check/program.sh" "$work/program" quick -I"$here/include" "$here/tests/train/killed/program.cpp"
stride=7
[ "${WEFT_TEST_ALL:-}" != yes ] || stride=1
LD_PRELOAD=$work/shim.so "$work/program" "$work" "$stride" ${SCENARIO:+"$SCENARIO"}
