#!/usr/bin/env bash
# over_mpi.sh MPIRUN RANKS PROGRAM ARGUMENTS...: runs a doctest program as so many processes of one machine, however few
# its cores; as one, without mpirun. Rank 0 reports; the others say what fails on them alone.
set -euo pipefail
if [ "$1" = --rank ]; then
  shift
  [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 0 ] || set -- "$@" --minimal=true
  exec "$@"
fi
mpirun=$1 ranks=$2
shift 2
source "$(dirname "${BASH_SOURCE[0]}")/mpi_environment.sh"
export WEFT_TEST_RANKS=$ranks
[ "$ranks" = 1 ] && exec "$@"
if ! "$mpirun" -n 2 true >/dev/null 2>&1; then
  echo "skipped: $mpirun can't start processes here"
  exit 77
fi
exec "$mpirun" -n "$ranks" bash "${BASH_SOURCE[0]}" --rank "$@"
