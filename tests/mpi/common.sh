# To be sourced by the tests of this folder. `implementations`: what is installed of Open MPI and MPICH; `compile
# IMPLEMENTATION OUT SOURCES...`; `over IMPLEMENTATION RANKS PROGRAM ARGUMENTS...`. `out` is an empty folder that goes away.
set -uo pipefail
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
source "$WEFT_SOURCE_DIR/tests/check/mpi_environment.sh"
export OMPI_CXX="$CXX" MPICH_CXX="$CXX"
faults=0
fault() { echo "FAULT: $*"; faults=$((faults + 1)); }

implementations=()
for name in openmpi mpich; do
  if command -v "mpicxx.$name" >/dev/null && command -v "mpirun.$name" >/dev/null; then implementations+=("$name"); fi
done
if [ ${#implementations[@]} = 0 ]; then
  echo "skipped: neither mpicxx.openmpi nor mpicxx.mpich is here (Debian: libopenmpi-dev openmpi-bin, libmpich-dev mpich)"
  exit 77
fi

compile() {
  local of=$1 program=$2
  shift 2
  # The wrapper's own bytes don't tell which compiler it calls.
  CCACHE_COMPILERCHECK='%compiler% --version' bash "$WEFT_SOURCE_DIR/tests/check/program.sh" "$program" "mpicxx.$of" \
    -std=c++20 -O1 -Wall -Wextra -I "$WEFT_SOURCE_DIR/include" -I "$WEFT_SOURCE_DIR/tests" "$@" -pthread ||
    { echo "FAULT: $* doesn't compile with mpicxx.$of"; exit 1; }
}
over() {
  local of=$1 ranks=$2
  shift 2
  timeout 300 "mpirun.$of" -n "$ranks" "$@"
}
