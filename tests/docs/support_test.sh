#!/usr/bin/env bash
# docs/support.md says what the compiler and the backends say. It is g++'s words that are read.
command -v g++ >/dev/null || { echo "skipped: g++ is not installed"; exit 77; }
CXX=g++ exec bash "$WEFT_SOURCE_DIR/docs/tools/generate.sh" --check support
