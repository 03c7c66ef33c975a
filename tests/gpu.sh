#!/usr/bin/env bash
# tests/gpu.sh [--built DIR] [--only tests|host|sanitizers|bench] [what bench/cuda/run.sh takes]: all that needs a GPU, in one command: the CUDA
# tests, the same on the device on the host and how far trainings are from the CPU's on either, the small ones of them under compute-sanitizer, and
# the times of kernels and training steps beside PyTorch's and the floors that the card's peaks set. The report goes to build/gpu-DATE.txt too. Counted are doctest's test cases, and one for every other part; the exit code tells too.
#   --built DIR  programs compiled elsewhere: test_backend_cuda, test_backend_cuda_sm_90a (of a card of 9.0), test_train_cuda, test_cudnn_cuda, test_nccl_cuda,
#                test_nccl_mpi_cuda, bench_cuda_kernels, bench_cuda_step; and the device on the host's libraries, in DIR/device_runtime
# Without NCCL there is no test_nccl_cuda, without cuDNN or its frontend no test_cudnn_cuda, and it is left out. Its ranks have a GPU each: what asks for more than there are says that it is skipped.
# test_nccl_mpi_cuda, for which MPI has to be there too, is started as 2 processes, and as one for each GPU where there are more (MPIRUN [mpirun]).
# The device on the host takes nvcc 13; without it that part is left out. It takes minutes for what a card does in seconds: HOST_LIMIT [3600].
# SANITIZERS: its tools ["memcheck racecheck initcheck synccheck"]. LIMIT: seconds that a part may take [300]. PYTHON: one with PyTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source bench/cuda/programs.sh
built='' only=''
while [ $# -gt 0 ]; do
  case $1 in
    --built) built=$(realpath "$2") && shift ;;
    --only) only=$2 && shift ;;
    -h | --help) sed -n '2,11s/^# //p' "$0"; exit 0 ;;
    *) break ;;
  esac
  shift
done
case $only in '' | tests | host | sanitizers | bench) ;; *) echo "tests/gpu.sh: --only is tests, host, sanitizers or bench, not $only" >&2; exit 2 ;; esac
mkdir -p build
report=build/gpu-$(date +%Y-%m-%d-%H%M%S).txt
command -v nvidia-smi >/dev/null || { echo "tests/gpu.sh: there is no NVIDIA GPU here, or no driver for it (no nvidia-smi)" >&2; exit 2; }
sanitizer=$(command -v compute-sanitizer || echo "$(dirname "$nvcc")/compute-sanitizer")
exec 3>&1 > >(tee "$report" >&3) 2>&1
writer=$!
passed=0 failed=0 limit=${LIMIT:-300}
log=$(mktemp) apart=$(mktemp -d)
trap 'rm -rf "$log" "$apart"' EXIT

# part NAME COMMAND...: runs it, whatever becomes of it.
part() {
  local name=$1 rc=0 begin=$SECONDS cases
  shift
  echo "== $name"
  timeout -k 10 "$limit" "$@" 2>&1 | tee "$log" || rc=${PIPESTATUS[0]}
  cases=$(grep -ao '^\[doctest\] test cases:.*' "$log" | grep -o '[0-9]* \(passed\|failed\)' | tr '\n' ' ' || true)
  if [[ $cases =~ ([0-9]+)\ passed\ ([0-9]+)\ failed ]] && [ "${BASH_REMATCH[1]}${BASH_REMATCH[2]}" = 00 ]; then
    echo "no test case has that name" && failed=$((failed + 1)) rc=1
  elif [ -n "${BASH_REMATCH[2]:-}" ] && [ $((rc == 0)) = $((BASH_REMATCH[2] == 0)) ]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  elif [ "$rc" = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  echo "== $name: exit code $rc, $((SECONDS - begin)) s"
  return "$rc"
}
# cases PROGRAM: each of its test cases in a process of its own, since what goes wrong on a GPU ends all that comes after.
cases() {
  local name rc
  "${compiled[@]}" "$1" --list-test-cases --no-version 2>/dev/null | grep -av '^\[doctest\]\|^=*$' | while IFS= read -r name; do
    rc=0  # a comma would end the name
    timeout -k 5 60 "${compiled[@]}" "$1" --no-version --test-case="${name//,/?}" >"$log" 2>&1 || rc=$?
    printf '%s: %s\n' "$name" "$([ $rc = 0 ] && echo passes || echo "exit code $rc")"
    [ $rc = 0 ] || grep -a 'ERROR: ' "$log" | head -8 || true
  done || true
}
wants() { [ -z "$only" ] || [ "$only" = "$1" ]; }

echo "$(date -u +%Y-%m-%d), $(git rev-parse --short HEAD 2>/dev/null || echo 'no git')"
nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,clocks.max.sm --format=csv,noheader
if [ -z "$built" ] && ! [ "$only" = bench ]; then
  part build bash -c "cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=$(architecture) &&
    targets=\$(cmake --build build/cuda --target help | grep -o '\\btest_\(cudnn_cuda\|nccl_\(mpi_\)\?cuda\|backend_cuda_sm_$(architecture)\)\\b\|\\bweft_device_cu[a-zA-Z]*\\b' | sort -u) &&
    cmake --build build/cuda --target test_backend_cuda test_train_cuda \$targets" || true
fi
tests=${built:-build/cuda/tests}
if wants tests; then
  for program in test_backend_cuda "test_backend_cuda_sm_$(architecture)" test_train_cuda test_cudnn_cuda test_nccl_cuda; do
    case $program in *_sm_*) [ -e "$tests/$program" ] || continue ;; esac
    if [ $program = test_cudnn_cuda ] && ! [ -e "$tests/$program" ]; then
      echo "== $program: left out, since there is none in $tests: CMake finds no cuDNN or no cudnn-frontend (CUDNN_ROOT, CUDNN_FRONTEND_ROOT)"
      continue
    fi
    if [ $program = test_nccl_cuda ] && ! [ -e "$tests/$program" ]; then
      echo "== $program: left out, since there is none in $tests: CMake finds no NCCL (Debian: libnccl-dev; or NCCL_ROOT)"
      continue
    fi
    part "$program" "${compiled[@]}" WEFT_APART="$apart/card" "$tests/$program" --no-version || cases "$tests/$program"
  done
  gpus=$(nvidia-smi -L | wc -l) program=test_nccl_mpi_cuda
  if ! [ -e "$tests/$program" ]; then
    echo "== $program: left out, since there is none in $tests: CMake finds no NCCL or no MPI (Debian: libnccl-dev, libopenmpi-dev)"
  elif [ "$gpus" -lt 2 ]; then
    echo "== $program: left out, since its processes have a GPU each, and this machine has $gpus"
  else
    for ranks in $(printf '%s\n' 2 "$gpus" | sort -un); do
      part "$program, $ranks processes" "${compiled[@]}" bash tests/nccl/mpi/over_processes.sh "${MPIRUN:-mpirun}" "$ranks" '' \
        "$tests/$program" --no-version || true
    done
  fi
fi
if wants host && ! [ -e "$tests/device_runtime/libcudart.so.13" ]; then
  echo "== the device on the host: left out, since $tests/device_runtime isn't there: its code is of nvcc 13"
elif wants host; then
  for program in test_backend_cuda test_train_cuda; do
    limit=${HOST_LIMIT:-3600} part "$program on the device on the host" "${compiled[@]}" WEFT_APART="$apart/host" \
      bash tests/device/run.sh "$tests/device_runtime" --padding "$tests/$program" --no-version --source-file-exclude='*_host_test.cu' || true
  done
fi
if [ -e "$apart/card" ] || [ -e "$apart/host" ]; then
  printf '\n| %s | %s | %s | %s | %s |\n|---|---|---|---|---|\n' 'furthest from the CPU, on the card; on the host' losses norm gradients weights
  touch "$apart/card" "$apart/host"
  awk -F'|' '
    { if (!($1 in seen)) { seen[$1]; name[++n] = $1 }
      on = FILENAME ~ /card$/ ? "card" : "host"
      for (i = 2; i <= 5; i++) if (!((on, $1, i) in most) || $i + 0 > most[on, $1, i] + 0) most[on, $1, i] = $i }
    function both(what, i) { return ((("card", what, i) in most) ? most["card", what, i] : "-") "; " ((("host", what, i) in most) ? most["host", what, i] : "-") }
    END { for (k = 1; k <= n; k++) printf "| %s | %s | %s | %s | %s |\n", name[k], both(name[k], 2), both(name[k], 3), both(name[k], 4), both(name[k], 5) }' "$apart/card" "$apart/host"
  echo
fi
check=("${compiled[@]}" "$sanitizer" --error-exitcode 9 --print-limit 10)
if wants sanitizers; then
  for tool in ${SANITIZERS:-memcheck racecheck initcheck synccheck}; do
    part "$tool, laws" "${check[@]}" --tool "$tool" "$tests/test_backend_cuda" --no-version \
      --test-case-exclude='all laws*' || true
    part "$tool, training" "${check[@]}" --tool "$tool" "$tests/test_train_cuda" --no-version \
      --test-case='*a Llama in bf16*' || true
  done
fi
if wants bench; then
  limit=1200 part bench bash bench/cuda/run.sh ${built:+--built "$built"} "$@" || true
fi
echo "$passed passed, $failed failed"
exec >&3 2>&1 3>&-
wait "$writer"
[ "$failed" = 0 ]
