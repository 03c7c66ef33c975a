#!/usr/bin/env bash
# Times LoRA beside peft: adapters.py says how, and its options. Makes what it needs under build/compare: a Python environment with PyTorch,
# transformers, peft and bitsandbytes from PyPI (6 GB) and the compiled adapters.cpp. PYTHON: one that has them already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=build/compare
mkdir -p "$work"
python=${PYTHON:-"$work/venv/bin/python"}
if ! "$python" -c 'import torch, transformers, peft, bitsandbytes, accelerate' 2>/dev/null; then
  [ -x "$python" ] || python3 -m venv "$work/venv"
  "$python" -m pip install -q "${TORCH:-torch}" numpy transformers peft bitsandbytes accelerate
fi
"${CXX:-g++}" -std=c++20 -O2 -Iinclude bench/compare/adapters.cpp -o "$work/adapters" -pthread
exec "$python" bench/compare/adapters.py --adapters "$work/adapters" --work "$work" "$@"
