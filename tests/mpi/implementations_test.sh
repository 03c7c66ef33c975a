#!/usr/bin/env bash
# The laws and what they leave out, over Open MPI and MPICH, as 3 processes; mpicxx, which the build takes, is one of them.
source "$WEFT_SOURCE_DIR/tests/mpi/common.sh"
for of in "${implementations[@]}"; do
  [ "$(readlink -f "$(command -v "mpicxx.$of")")" = "$(readlink -f "$(command -v mpicxx)")" ] && continue
  cd "$WEFT_SOURCE_DIR/tests" || exit 1
  compile "$of" "$out/program" mpi/laws_test.cpp mpi/operations_test.cpp main.cpp
  over "$of" 3 bash check/over_mpi.sh --rank "$out/program" || fault "$of"
  tested=$of
done
[ -n "${tested:-}" ] || { echo "skipped: one implementation of MPI is here, the one that the build takes"; exit 77; }
[ $faults = 0 ]
