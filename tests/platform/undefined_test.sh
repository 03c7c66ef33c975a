#!/usr/bin/env bash
# Programs compile with flags under which g++ doesn't compare addresses while compiling; with each alone where all is asked for.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
wants g++ g++
asked=('-fsanitize=undefined -fno-delete-null-pointer-checks')
[ "${WEFT_TEST_ALL:-}" != yes ] || asked=(-fsanitize=undefined -fno-delete-null-pointer-checks)
for flags in "${asked[@]}"; do
  # shellcheck disable=SC2086  # several flags
  quietly g++ -std=c++20 $flags -fsyntax-only -I "$WEFT_SOURCE_DIR/include" "$WEFT_SOURCE_DIR/examples/05_own_training.cpp"
done
