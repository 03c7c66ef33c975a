#!/usr/bin/env bash
# examples/qlora.sh [FOLDER]: fine-tunes a small model in 4 bits (QLoRA) on 2 ranks, goes on on 1, merges, and has transformers read what came out;
# in FOLDER [build/qlora], which is new. Installs what is missing (Debian; as root or with sudo) and compiles examples/09_qlora.cpp, unless
# QLORA names the program. The model learns this repository's headers first and its documentation then, of which the last 500 lines are held out.
# The last part is left out, and that is said, where PYTHON [python3] hasn't got transformers and PyTorch.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work=${1:-$root/build/qlora} python=${PYTHON:-python3}
[ $# != 0 ] || rm -rf "$work"
mkdir -p "$(dirname "$work")"
mkdir "$work" || { echo "qlora.sh: give a folder that isn't there yet" >&2; exit 1; }
work=$(realpath "$work")

program=$(realpath "${QLORA:-$work/qlora}")
if [ -z "${QLORA:-}" ]; then
  source "$root/tests/check/install.sh"
  need g++ g++
  need /usr/include/nlohmann/json.hpp nlohmann-json3-dev
  install_missing
  echo "== compiling examples/09_qlora.cpp (a minute)"
  g++ -std=c++20 -O2 -I"$root/include" "$root/examples/09_qlora.cpp" -pthread -o "$program"
fi

cd "$work"
find "$root/include" -name '*.hpp' -print0 | LC_ALL=C sort -z | xargs -0 cat >code.txt
find "$root/README.md" "$root/docs" -name '*.md' -print0 | LC_ALL=C sort -z | xargs -0 cat >all.txt
head -n -500 all.txt >prose.txt
tail -n 500 all.txt >held_out.txt

echo "== a model of source code: base/"
"$program" base
"$program" loss base
echo "== 60 steps of prose on 2 ranks, in 4 bits"
"$program" tune 2 0 60
echo "== 60 more on 1 rank"
"$program" tune 1 60 120
echo "== merged, and read again: tuned/"
"$program" merge 120
"$program" loss tuned | tee tuned.loss
if "$python" -c 'import torch, transformers' 2>/dev/null; then
  echo "== read by transformers"
  "$python" "$root/examples/qlora/transformers_loss.py" tuned held_out.txt "$(sed 's/.*: //' tuned.loss)"
else
  echo "== skipped: $python has no transformers and PyTorch to read tuned/ with; PYTHON names one that has"
fi
