#!/usr/bin/env bash
# launch_options.check, unless a program says otherwise: on in one that is compiled without optimisation, off with it and with NDEBUG; WEFT_CHECK decides.
set -euo pipefail
program=$(mktemp --suffix=.cpp)
trap 'rm -f "$program"' EXIT
cat >"$program" <<'EOF'
#include <weft/parallel/launch_options.hpp>
static_assert(weft::launch_options{}.check == EXPECTED);
EOF
is() {  # true or false, FLAG...
  local expected=$1
  shift
  "${CXX:-g++}" -std=c++20 -fsyntax-only -I "$WEFT_SOURCE_DIR/include" "-DEXPECTED=$expected" "$@" "$program" || { echo "FAULT: with $*, check isn't $expected"; exit 1; }
}
is true -O0
is false -O1
is false -O0 -DNDEBUG
is true -O2 -DNDEBUG -DWEFT_CHECK=1
is false -O0 -DWEFT_CHECK=0
