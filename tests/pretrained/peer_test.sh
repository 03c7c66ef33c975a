#!/usr/bin/env bash
# Folders that save_quantised wrote, and adapters beside one, given to transformers with bitsandbytes and peft on the CPU: their logits are
# Weft's. PYTHON: one that has the packages [python3].
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
python=${PYTHON:-python3}
"$python" -c 'import accelerate, bitsandbytes, peft, torch, transformers' 2>/dev/null ||
  { echo "skipped: $python has no torch, transformers, accelerate, bitsandbytes and peft (of PyPI); PYTHON names one that does"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$here/tests/check/program.sh" "$work/write" quick -I"$here/include" "$here/tests/pretrained/peer/write.cpp"
mkdir "$work/folders"
(cd "$work/folders" && "$work/write")
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" "$here/tests/pretrained/peer/read.py" "$work/folders" 2>"$work/said" || { cat "$work/said"; exit 1; }
