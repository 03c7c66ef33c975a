#!/usr/bin/env bash
# run.sh FOLDER [[--padding] COMMAND...]: runs a program of nvcc's on the device on the host, whose libcudart.so.13 and libcublasLt.so.13 (and
# libnccl.so.2) lie in FOLDER; WEFT_DEVICE_COUNT (1) says how many devices there are. It passes if the program does, and the device ran something and found nothing wrong. WEFT_DEVICE_SEED (1) draws whose turn it is.
# --padding: global memory that nobody wrote may be read (machine.hpp, settings).
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "skipped: there is no nvcc here, whose code would be run"
  exit 77
fi
folder=$1
shift
if [ "$1" = --padding ]; then
  export WEFT_DEVICE_PADDING=1
  shift
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# Loaded first, they stand for the toolkit's, wherever the program would look for those.
nccl=$folder/libnccl.so.2  # where NCCL's header was found
env LD_PRELOAD="$folder/libcudart.so.13 $folder/libcublasLt.so.13$([ ! -e "$nccl" ] || echo " $nccl")" WEFT_DEVICE_SEED="${WEFT_DEVICE_SEED:-1}" "$@" 2>"$log" || status=$?
cat "$log"
if ! grep -Eq '^device on the host: [1-9][0-9]* launches, [1-9][0-9]* instructions of warps, 0 findings$' "$log"; then
  echo "the device on the host ran nothing, or found something wrong"
  exit 1
fi
exit $status
