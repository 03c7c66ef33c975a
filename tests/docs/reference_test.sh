#!/usr/bin/env bash
# docs/reference says what the headers say.
set -euo pipefail
exec bash "$WEFT_SOURCE_DIR/docs/tools/generate.sh" --check reference
