#!/usr/bin/env bash
# Programs compile with flags under which g++ doesn't compare addresses while compiling.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
wants g++ g++
for flag in -fsanitize=undefined -fno-delete-null-pointer-checks; do
  quietly g++ -std=c++20 "$flag" -fsyntax-only -I "$WEFT_SOURCE_DIR/include" "$WEFT_SOURCE_DIR/examples/05_own_training.cpp"
done
