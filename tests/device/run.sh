#!/usr/bin/env bash
# run.sh FOLDER [--padding] [--counts] [--seeds N] COMMAND...: runs a program of nvcc's on the device on the host, whose libcudart.so.13 and libcublasLt.so.13 (and
# libnccl.so.2 and libcudnn.so.9) lie in FOLDER; WEFT_DEVICE_COUNT (1) says how many devices there are. It passes if the program does, and the device ran
# something and found nothing wrong. WEFT_DEVICE_SEED (1) draws whose turn it is.
# --seeds: it runs N times, under as many seeds. --padding: global memory that nobody wrote may be read (machine.hpp, settings). --counts: it ends with a table of what each kernel asked of
# memory (counts.hpp). run.sh --skipped SENTENCE: says that and is skipped.
set -euo pipefail
if [ "$1" = --skipped ]; then
  echo "skipped: $2"
  exit 77
fi
folder=$(realpath "$1") seeds=1
shift
while :; do
  case $1 in
    --padding) export WEFT_DEVICE_PADDING=1 ;;
    --counts) export WEFT_DEVICE_COUNTS=1 ;;
    --seeds) seeds=$2 && shift ;;
    *) break ;;
  esac
  shift
done
work=$(mktemp -d /tmp/weft_device.XXXXXX)
trap 'rm -rf "$work"' EXIT
ln -s "$folder" "$work/device"  # LD_PRELOAD is cut at spaces and colons, which the folder's name may have
log=$work/log
status=0
# Loaded first, they stand for the toolkit's, wherever the program would look for those.
stand_ins="$work/device/libcudart.so.13 $work/device/libcublasLt.so.13"
[ ! -e "$folder/libnccl.so.2" ] || stand_ins+=" $work/device/libnccl.so.2"  # where NCCL's header was found
[ ! -e "$folder/libcudnn.so.9" ] || stand_ins+=" $work/device/libcudnn.so.9"  # and cuDNN's, and its frontend
first=${WEFT_DEVICE_SEED:-1}
for ((seed = first; seed < first + seeds && status == 0; seed++)); do
  [ "$seeds" = 1 ] || echo "seed $seed"
  env LD_PRELOAD="$stand_ins" WEFT_DEVICE_SEED="$seed" "$@" 2>"$log" || status=$?
  cat "$log"
  if ! grep -Eq '^device on the host: [1-9][0-9]* launches, [1-9][0-9]* instructions of warps, 0 findings$' "$log"; then
    echo "the device on the host ran nothing, or found something wrong"
    unknown=$(sed -n 's/.*undefined symbol: \(cu[A-Za-z_0-9]*\).*/\1/p' "$log" | head -n 1)
    [ -z "$unknown" ] || echo "it doesn't know $unknown: docs/cuda.md lists the calls that it does"
    ! grep -q 'CUDA driver version is insufficient' "$log" || echo "the program has CUDA's run-time within it: link it with nvcc -cudart shared"
    exit 1
  fi
done
exit $status
