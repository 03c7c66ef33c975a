#!/usr/bin/env bash
# clang takes -fassociative-math, -fno-honor-nans and their like without saying so by a macro, so nothing can refuse them:
# kernels have to compute the same all the same, on every instruction set of this machine.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
wants clang++ clang
compile() { quietly clang++ -std=c++20 -O2 -I "$WEFT_SOURCE_DIR/include" "$here/functions.cpp" -o "$out/functions" -pthread "$@"; }
compile -fassociative-math -fno-signed-zeros -fno-trapping-math -freciprocal-math -fapprox-func -fno-honor-nans
tried=0
for isa in portable avx2 avx512; do
  WEFT_ISA=$isa "$out/functions" >"$out/said" 2>&1 && code=0 || code=$?
  if grep -q 'is not supported here' "$out/said"; then continue; fi
  tried=$((tried + 1))
  [ $code = 0 ] || { cat "$out/said"; echo "FAULT: on $isa"; exit 1; }
done
[ $tried -gt 0 ]

# g++'s pragma leaves no macro either: the launch says so.
cat >"$out/pragma.cpp" <<EOT
#pragma GCC optimize("Ofast")
#include <weft/weft.hpp>
int main() { weft::launch<weft::strategy<weft::mesh<weft::dp>>>({}, [](weft::context&) {}); }
EOT
if command -v g++ >/dev/null; then
  g++ -std=c++20 -O2 -I "$WEFT_SOURCE_DIR/include" "$out/pragma.cpp" -o "$out/pragma" -pthread
  "$out/pragma" >"$out/said" 2>&1 && { echo "FAULT: #pragma GCC optimize(Ofast) is accepted"; exit 1; }
  grep -qF 'arithmetic is not as it is written' "$out/said" || { cat "$out/said"; echo "FAULT: it isn't what is said of the pragma"; exit 1; }
fi
