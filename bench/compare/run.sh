#!/usr/bin/env bash
# Times Weft beside PyTorch. Makes what it needs under build/compare: a Python environment with PyTorch from PyPI
# (5.5 GB, as its Linux wheel asks for CUDA's libraries even where only the CPU is used) and the compiled step.cpp.
#   bench/compare/run.sh [--rounds N] [--models main 10.8M gpt2-124M] [--precisions fp32 bf16] [--ranks 1x1 1x2 2x1] [--setups eager ...]
# PYTHON: one with PyTorch and numpy. BENCH_LOCK: a file to lock around timed steps, where others measure on the same machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source bench/compare/python.sh
needs numpy
if [[ bench/compare/step.cpp -nt "$work/step" || -n $(find include -newer "$work/step" -print -quit 2>/dev/null) ]]; then
  "${CXX:-g++}" -std=c++20 -O2 -Iinclude bench/compare/step.cpp -o "$work/step" -pthread
fi
"$python" -c 'import torch; print("PyTorch", torch.__version__)'
export TORCHINDUCTOR_CACHE_DIR="$PWD/$work/inductor"
exec "$python" bench/compare/compare.py --step "$work/step" --out "$work/results.jsonl" "$@"
