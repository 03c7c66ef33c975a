#!/usr/bin/env bash
# Times text beside transformers: text.py says how, and its options. Makes what it needs under build/compare: a Python environment with
# PyTorch and transformers from PyPI (5.5 GB) and the compiled text.cpp. PYTHON: one that has them already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source bench/compare/python.sh
needs numpy transformers
"${CXX:-g++}" -std=c++20 -O2 -Iinclude bench/compare/text.cpp -o "$work/text" -pthread
exec "$python" bench/compare/text.py --text "$work/text" "$@"
