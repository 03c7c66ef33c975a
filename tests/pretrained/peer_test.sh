#!/usr/bin/env bash
# Folders that save_quantised wrote, and adapters beside one, given to transformers with bitsandbytes and peft on the CPU: their logits are
# Weft's.
source "$(dirname "${BASH_SOURCE[0]}")/peer/common.sh"
bash "$here/tests/check/program.sh" "$work/write" quick -I"$here/include" "$here/tests/pretrained/peer/write.cpp"
mkdir "$work/folders"
(cd "$work/folders" && "$work/write")
export TRANSFORMERS_VERBOSITY=error
asked read.py "$work/folders"
