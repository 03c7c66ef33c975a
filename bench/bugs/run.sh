#!/usr/bin/env bash
# Twelve published faults of parallel training, as small programs in Weft, JAX, spmd_types and PyTorch's DTensor: who refuses which,
# when, after how many seconds. Writes docs/bugs.jsonl and the tables of docs/bugs.md.
#   bench/bugs/run.sh [--only weft jax_explicit ...] [--fault NAME ...] [--repeat N]
# Makes a Python environment under build/bugs with the peers from PyPI (5.5 GB, as PyTorch's Linux wheel asks for CUDA's libraries
# even where only the CPU is used). PEERS: what pip installs. Where a peer can't be installed, its rows stay as they were, and that
# is said.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=build/bugs
python="$PWD/$work/venv/bin/python"
peers=${PEERS:-jax==0.10.2 torch==2.15.0 spmd_types==0.3.1}
if [[ " $* " =~ ' --only weft '(--|$) ]]; then
  exec python3 bench/bugs/run.py "$@"
fi
mkdir -p "$work"
if ! "$python" -c 'import jax, torch, spmd_types, numpy' 2>/dev/null; then
  python3 -m venv "$work/venv"
  for peer in numpy $peers; do
    "$python" -m pip install -q "$peer" || echo "SKIPPED: $peer can't be installed (is there a network?)"
  done
fi
exec python3 bench/bugs/run.py --python "$python" "$@"
