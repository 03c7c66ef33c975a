#!/usr/bin/env bash
# over_processes.sh MPIRUN RANKS FOLDER PROGRAM ARGUMENTS...: runs a doctest program of nvcc's as so many processes, each on a device of its own
# on the host (device/run.sh FOLDER); what their NCCL moves lies in a folder for the while. FOLDER "": on the machine's GPUs.
# --killed MPIRUN ...: where one of the ranks is killed: all end, and mpirun says which.
# --visible RANK|N MPIRUN ...: each process sees one device alone, that of its rank's number, or card N.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ "$1" = --one ]; then  # in each process
  visible=$2 && shift 2
  [ "$visible" != RANK ] || visible=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
  export WEFT_DEVICE_VISIBLE=$visible CUDA_VISIBLE_DEVICES=$visible
  exec "$@"
fi
killed='' visible=''
[ "$1" != --killed ] || { killed=yes && shift; }
[ "$1" != --visible ] || { visible=$2 && shift 2; }
mpirun=$1 ranks=$2 folder=$3
shift 3
if [ -n "$folder" ]; then
  set -- bash "$here/device/run.sh" "$folder" --padding "$@"
  export WEFT_DEVICE_SHARED WEFT_DEVICE_COUNT=$ranks
  WEFT_DEVICE_SHARED=$(mktemp -d /tmp/weft_nccl.XXXXXX)
  trap 'rm -rf "$WEFT_DEVICE_SHARED"' EXIT
fi
[ -z "$visible" ] || set -- bash "${BASH_SOURCE[0]}" --one "$visible" "$@"
[ -n "$killed" ] || { bash "$here/check/over_mpi.sh" "$mpirun" "$ranks" "$@"; exit; }
status=0
said=$(timeout 100 bash "$here/check/over_mpi.sh" "$mpirun" "$ranks" "$@" --no-skip 2>&1) || status=$?
echo "$said"
case $status in
  0) echo "a rank was killed, and all is well" && exit 1 ;;
  77) exit 77 ;;
  124) echo "a rank was killed, and the others wait for it" && exit 1 ;;
esac
