#!/usr/bin/env bash
# Folders of every family that save_pretrained and save_merged wrote, in one file and in several, with a tokenizer taken along, and those of
# save_adapters, given to transformers and peft: their logits are Weft's, and they warn of nothing.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
python=$(bash "$here/tests/check/peer_python.sh" "$here/tests/pretrained/peer/packages.txt" --extra-index-url https://download.pytorch.org/whl/cpu \
  --retries 1 --timeout 15) || { echo "$python"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$here/tests/check/program.sh" "$work/folders_program" quick -I"$here/include" "$here/tests/pretrained/peer/folders.cpp"
mkdir "$work/folders"
export HF_HUB_OFFLINE=1
"$python" "$here/tests/pretrained/peer/folders.py" make "$work/like" 2>"$work/said" || { cat "$work/said"; exit 1; }
(cd "$work/folders" && "$work/folders_program" "$work/like")
"$python" "$here/tests/pretrained/peer/folders.py" read "$work/like" "$work/folders" 2>"$work/said" || { cat "$work/said"; exit 1; }
