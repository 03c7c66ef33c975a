#!/usr/bin/env bash
# Times LoRA beside peft: adapters.py says how, and its options. Makes what it needs under build/compare: a Python environment with PyTorch,
# transformers, peft and bitsandbytes from PyPI (6 GB) and the compiled adapters.cpp. PYTHON: one that has them already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source bench/compare/python.sh
needs numpy transformers peft bitsandbytes accelerate
"${CXX:-g++}" -std=c++20 -O2 -Iinclude bench/compare/adapters.cpp -o "$work/adapters" -pthread
exec "$python" bench/compare/adapters.py --adapters "$work/adapters" --work "$work" "$@"
