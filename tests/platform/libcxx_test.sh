#!/usr/bin/env bash
# clang with libc++ instead of libstdc++.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
wants clang++ clang
echo '#include <vector>' >"$out/probe.cpp"
clang++ -stdlib=libc++ -fsyntax-only "$out/probe.cpp" 2>/dev/null || { echo "skipped: libc++ is not here (Debian: apt-get install libc++-14-dev libc++abi-14-dev)"; exit 77; }
build clang++ -stdlib=libc++ -O0
"$out/program"
