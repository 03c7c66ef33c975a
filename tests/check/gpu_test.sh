#!/usr/bin/env bash
# What tests/gpu.sh builds, runs and counts, with programs that stand for the compiled ones, CMake and the driver's: the ranks over NCCL
# belong to it where NCCL was found, and a part that fails fails the whole.
set -euo pipefail
root=${WEFT_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/tests/nccl/mpi" "$work/tree/tests/check" "$work/tree/bench/cuda" "$work/bin" "$work/nvidia/nccl/lib"
cp "$root/tests/gpu.sh" "$work/tree/tests"
cp "$root/tests/nccl/mpi/over_processes.sh" "$work/tree/tests/nccl/mpi"
cp "$root/tests/check/over_mpi.sh" "$root/tests/check/mpi_environment.sh" "$work/tree/tests/check"
cp "$root/bench/cuda/programs.sh" "$work/tree/bench/cuda"
export PATH=$work/bin:$PATH PYTHON=$work/bin/python
program() { cat >"$1" && chmod +x "$1"; }
mkdir "$work/tree/tests/device"
program "$work/tree/tests/device/run.sh" <<<$'#!/bin/bash\n[ -e "$1/libcudart.so.13" ] && [ "$2" = --padding ] && shift 2 && ON=host exec "$@"'
program "$work/bin/nvidia-smi" <<<$'#!/bin/sh\ncase $1 in *=compute_cap) echo 9.0 ;; -L) seq ${GPUS:-1} ;; *) echo a card ;; esac'
program "$work/bin/mpirun" <<<$'#!/bin/bash\nshift 2\nexec "$@"'
program "$work/bin/python" <<<$'#!/bin/sh\necho "$NCCL_FOLDER"'
touch "$work/nvidia/nccl/lib/libnccl.so.2"
# A build whose programs say which they are, where their libraries are looked for, and that PASSED cases pass and FAILED fail. TARGETS: what
# CMake knows.
program "$work/bin/cmake" <<'MAKER'
#!/bin/bash
case "$*" in
  *--preset*) exit ;;
  *help) printf '%s: phony\n' $TARGETS; exit ;;
esac
mkdir -p build/cuda/tests
all=$*
for target in ${all##*--target }; do
  case $target in weft_device_*)
    mkdir -p build/cuda/tests/device_runtime
    touch build/cuda/tests/device_runtime/libcudart.so.13
    continue ;;
  esac
  cat >"build/cuda/tests/$target" <<'TEST'
#!/bin/bash
[ -z "${WEFT_APART:-}" ] || [ "$(basename "$0")" != test_train_cuda ] || printf 'a Llama|%s|0.02|0.03|0.04\n' $([ "${ON:-}" = host ] && echo 1e-7 3e-8 || echo 2e-7 1e-7) >>"$WEFT_APART"
echo "this is $(basename "$0"), libraries in $LD_LIBRARY_PATH"
failed=0
[ "$(basename "$0")" != "${FAILS:-}" ] || failed=1
echo "[doctest] test cases: $((2 + failed)) | 2 passed | $failed failed | 0 skipped"
exit $failed
TEST
  chmod +x "build/cuda/tests/$target"
done
MAKER

faults=0
# says STATUS SENTENCE COMMAND...
says() {
  local status=0
  "${@:3}" >"$work/said" 2>&1 </dev/null || status=$?
  if [ "$status" != "$1" ] || ! grep -qF -- "$2" "$work/said"; then
    echo "exit code $status, not $1, or it doesn't say '$2': ${*:3}"
    cat "$work/said"
    faults=$((faults + 1))
  fi
}
# has SENTENCE FILE...: which the last one left.
has() {
  cat "${@:2}" | grep -qF -- "$1" && return
  echo "'$1' isn't in ${*:2}:" && cat "${@:2}"
  faults=$((faults + 1))
}
gpu() { rm -rf "$work/tree/build" && env "$@" "$work/tree/tests/gpu.sh" --only tests; }
backend="test_backend_cuda test_train_cuda"

says 0 "7 passed, 0 failed" gpu TARGETS="$backend test_nccl_cuda" NCCL_FOLDER="$work/nvidia/nccl/lib"
has "this is test_nccl_cuda" "$work/said"
has "this is test_nccl_cuda" "$work"/tree/build/gpu-*.txt  # the report
grep "this is test_nccl_cuda" "$work/said" >"$work/line" || true
has "$work/nvidia/nccl/lib:" "$work/line"  # the folder of a package that has NCCL alone
says 1 "7 passed, 1 failed" gpu TARGETS="$backend test_nccl_cuda" NCCL_FOLDER= FAILS=test_nccl_cuda
says 0 "5 passed, 0 failed" gpu TARGETS="$backend" NCCL_FOLDER=
has "test_nccl_cuda: left out" "$work/said"
says 0 "7 passed, 0 failed" gpu TARGETS="$backend test_backend_cuda_sm_90a test_backend_cuda_sm_120a" NCCL_FOLDER=
has "this is test_backend_cuda_sm_90a" "$work/said"  # of this card alone
all="$backend test_nccl_cuda test_nccl_mpi_cuda"
says 0 "11 passed, 0 failed" gpu TARGETS="$all" NCCL_FOLDER= GPUS=4
has "== test_nccl_mpi_cuda, 2 processes" "$work/said"
has "== test_nccl_mpi_cuda, 4 processes" "$work/said"
says 1 "11 passed, 2 failed" gpu TARGETS="$all" NCCL_FOLDER= GPUS=4 FAILS=test_nccl_mpi_cuda
says 0 "9 passed, 0 failed" gpu TARGETS="$all" NCCL_FOLDER= GPUS=2
says 0 "7 passed, 0 failed" gpu TARGETS="$all" NCCL_FOLDER=
has "test_nccl_mpi_cuda: left out, since its processes have a GPU each" "$work/said"
says 2 "--only is tests, host, sanitizers or bench" "$work/tree/tests/gpu.sh" --only nothing
says 0 "5 passed, 0 failed" gpu TARGETS="$backend"
has "| a Llama | 2e-7; - | 0.02; - | 0.03; - | 0.04; - |" "$work/said"
host() { rm -rf "$work/tree/build" && env "$@" SANITIZERS=none "$work/tree/tests/gpu.sh"; }
says 1 "the device on the host: left out" host TARGETS="$backend"
says 1 "== test_train_cuda on the device on the host" host TARGETS="$backend weft_device_cudart weft_device_cublaslt"
has "| a Llama | 2e-7; 1e-7 | 0.02; 0.02 | 0.03; 0.03 | 0.04; 0.04 |" "$work/said"
exit $((faults > 0))
