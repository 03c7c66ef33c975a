#!/usr/bin/env bash
# Folders that save_quantised wrote, and adapters beside one, given to transformers with bitsandbytes and peft on the CPU: their logits are
# Weft's.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
python=$(bash "$here/tests/check/peer_python.sh" "$here/tests/pretrained/peer/packages.txt" --extra-index-url https://download.pytorch.org/whl/cpu \
  --retries 1 --timeout 15) || { echo "$python"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$here/tests/check/program.sh" "$work/write" quick -I"$here/include" "$here/tests/pretrained/peer/write.cpp"
mkdir "$work/folders"
(cd "$work/folders" && "$work/write")
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" "$here/tests/pretrained/peer/read.py" "$work/folders" 2>"$work/said" || { cat "$work/said"; exit 1; }
