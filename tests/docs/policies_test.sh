#!/usr/bin/env bash
# The tables of docs/policies/ say what the code says.
exec bash "$WEFT_SOURCE_DIR/docs/tools/generate.sh" --check policies
