#!/usr/bin/env bash
# The logits that docs/hugging_face.md prints of a family that isn't listed, which its page is held to, are those of transformers.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
page=$(awk '/^```text printed/ { getline; print; exit }' docs/hugging_face.md)
right=$(python3 - <<'PYTHON'
import json
logits = json.load(open("tests/pretrained/phi3/expected.json"))["logits"]
print(*(f"{x:.4f}" for x in logits[-13:]))  # of the last token
PYTHON
)
[ "$page" = "$right" ] || { echo "docs/hugging_face.md prints $page, and transformers computes $right"; exit 1; }
