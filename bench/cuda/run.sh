#!/usr/bin/env bash
# Times the CUDA kernels beside PyTorch's, and whole training steps, on GPU 0; what is made and measured lies in build/bench_cuda.
#   bench/cuda/run.sh [--built DIR] [--kernels GROUP | --no-kernels] [--eager] [compare.py's: --models --precisions --setups --rounds]
# --built: where bench_cuda_kernels and bench_cuda_step lie, compiled elsewhere; else nvcc makes them. --eager: no torch.compile of
# single kernels. PYTHON: one with PyTorch [python3].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source bench/cuda/programs.sh
built='' group='' kernels=yes eager=''
while [ $# -gt 0 ]; do
  case $1 in
    --built) built=$2 && shift ;;
    --kernels) group=$2 && shift ;;
    --no-kernels) kernels='' ;;
    --eager) eager=--eager ;;
    *) break ;;
  esac
  shift
done
work=$PWD/build/bench_cuda
mkdir -p "$work"
if [ -z "$built" ]; then
  built=$work
  for name in kernels step; do
    "$nvcc" -O2 -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -arch="sm_$(architecture)" -Iinclude \
      "bench/cuda/$name.cu" -o "$built/bench_cuda_$name" -cudart shared -lcublasLt
  done
fi

failed=0
if [ -n "$kernels" ]; then
  "${compiled[@]}" "$built/bench_cuda_kernels" ${group:+"$group"} | tee "$work/weft.txt" || failed=1
  echo
  "$python" bench/cuda/torch_kernels.py ${group:+"$group"} $eager | tee "$work/torch.txt" || failed=1
  # Of each kernel and size: what the card would take at its peaks, and PyTorch's best time over Weft's.
  printf '\n| %-26s | %-30s | %9s | %9s | %9s | %-7s | %5s |\n|---|---|---|---|---|---|---|\n' kernel size 'floor us' 'Weft us' 'PyTorch' by ratio
  awk -F'|' '
    function bare(s) { gsub(/^ +| +$/, "", s); return s }
    $6 + 0 > 0 { key = bare($2) "|" bare($3); us = $6 + 0 }
    $6 + 0 > 0 && FILENAME ~ /torch.txt$/ { if (!(key in best) || us < best[key]) { best[key] = us; way[key] = bare($4) } }
    $6 + 0 > 0 && FILENAME ~ /weft.txt$/ { weft[key] = us; least[key] = $10 + 0; order[++n] = key }
    END {
      for (i = 1; i <= n; i++) {
        key = order[i]; split(key, part, "|")
        if (key in best)
          printf "| %-26s | %-30s | %9.1f | %9.1f | %9.1f | %-7s | %5.2f |\n", part[1], part[2], least[key], weft[key], best[key], way[key], best[key] / weft[key]
      }
    }' "$work/weft.txt" "$work/torch.txt" | tee "$work/ratios.txt"
  echo
fi

printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "'$libraries'" "'$(realpath "$built/bench_cuda_step")'" >"$work/step"
chmod +x "$work/step"
export TORCHINDUCTOR_CACHE_DIR=$work/inductor
"$python" bench/compare/compare.py --device cuda --step "$work/step" --out "$work/steps.jsonl" --precisions bf16 "$@" || failed=1
exit $failed
