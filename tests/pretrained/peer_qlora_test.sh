#!/usr/bin/env bash
# examples/qlora.sh where transformers is: it reads the fine-tuned folder and its tokenizer, and finds Weft's loss on held-out text.
# (tests/examples/qlora_test.sh judges the rest.)
source "$(dirname "${BASH_SOURCE[0]}")/peer/common.sh"
bash "$here/tests/check/program.sh" "$work/qlora" quick -I"$here/include" "$here/examples/09_qlora.cpp"
QLORA="$work/qlora" PYTHON="$python" bash "$here/examples/qlora.sh" "$work/run" 2>&1 | tee "$work/said"
grep -q '^tuned: [0-9.]* by transformers' "$work/said"
