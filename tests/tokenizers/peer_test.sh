#!/usr/bin/env bash
# 10 MB of mixed text by every tokenizer.json that a package of tokenizers/peer/packages.txt ships, and 0.5 MB by each of this folder: tokens and
# texts are those of the package tokenizers.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}/tests"
python=$(bash "$here/check/peer_python.sh" "$here/tokenizers/peer/packages.txt" --no-deps) || { status=$?; echo "$python"; exit $status; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$here/check/program.sh" "$work/tokens" "${CXX:-g++}" -std=c++20 -O2 -pthread -I"$here/../include" "$here/tokenizers/peer/tokens.cpp" \
  -lonig -lutf8proc
"$python" "$here/tokenizers/peer/compare.py" "$work/tokens" 10000000 "$work"
