#!/usr/bin/env bash
# Folders of every family that save_pretrained and save_merged wrote, in one file and in several, with a tokenizer taken along, and those of
# save_adapters, given to transformers and peft: their logits are Weft's, and they warn of nothing.
source "$(dirname "${BASH_SOURCE[0]}")/peer/common.sh"
bash "$here/tests/check/program.sh" "$work/folders_program" quick -I"$here/include" "$here/tests/pretrained/peer/folders.cpp"
mkdir "$work/folders"
asked folders.py make "$work/like"
(cd "$work/folders" && "$work/folders_program" "$work/like")
asked folders.py read "$work/like" "$work/folders"
