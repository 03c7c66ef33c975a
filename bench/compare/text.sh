#!/usr/bin/env bash
# Times text beside transformers and llama.cpp: text.py says how, and its options. Makes what it needs under build/compare: a Python environment
# with PyTorch and transformers from PyPI (5.5 GB), llama-cpp-python, which pip compiles for this machine (minutes), and the compiled text.cpp.
# PYTHON: one that has them already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source bench/compare/python.sh
needs numpy transformers
"$python" -c 'import llama_cpp, gguf' 2>/dev/null || "$python" -m pip install -q llama-cpp-python gguf || echo "text.sh: goes on without llama.cpp"
"${CXX:-g++}" -std=c++20 -O2 -Iinclude bench/compare/text.cpp -o "$work/text" -pthread
exec "$python" bench/compare/text.py --text "$work/text" "$@"
