#!/usr/bin/env bash
# A program compiled with -march has no kernels below what that asks for, says so where they are asked for, and computes the same bits.
set -euo pipefail
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [ "$(uname -m)" != x86_64 ]; then echo "kernels are chosen on x86-64"; exit 77; fi
cat >"$out/program.cpp" <<'EOF'
#include <cstdio>
#include <weft/backend/cpu/softmax.hpp>
#include <weft/backend/cpu/team.hpp>
int main() {
  weft::cpu::team one(1);
  float x[1000];
  for (int i = 0; i < 1000; ++i) x[i] = float(i % 37) / 7 - 2;
  try {
    weft::cpu::softmax(one, 10, 100, 1, x, x);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
  unsigned long hash = 0;
  for (const float y : x) hash = hash * 31 + __builtin_bit_cast(unsigned, y);
  std::printf("%lu\n", hash);
}
EOF
compile() {  # NAME FLAG...: also the names of the kernels in it
  local name=$1
  shift
  ${WEFT_CCACHE:-} "${CXX:-g++}" -std=c++20 -O1 -I "$WEFT_SOURCE_DIR/include" "$@" -c "$out/program.cpp" -o "$out/$name.o"
  "${CXX:-g++}" -pthread "$out/$name.o" -o "$out/$name"
  nm -C "$out/$name.o" | grep -oE ' weft::cpu::(portable|avx2|avx512)::' | sort -u | tr -d '\n' || true
}
fault() { echo "FAULT: $*"; exit 1; }
any=$(compile any)
[ "$any" = ' weft::cpu::avx2:: weft::cpu::avx512:: weft::cpu::portable::' ] || fault "without -march: kernels of$any"
v3=$(compile v3 -march=x86-64-v3)
[ "$v3" = ' weft::cpu::avx2:: weft::cpu::avx512::' ] || fault "x86-64-v3: kernels of$v3"
v4=$(compile v4 -march=x86-64-v4)
[ "$v4" = ' weft::cpu::avx512::' ] || fault "x86-64-v4: kernels of$v4"

has() { WEFT_ISA=$1 "$out/any" >"$out/log"; }
for level in avx2:v3 avx512:v4; do
  if ! has "${level%:*}"; then echo "this processor has no ${level%:*}: compiled, not run"; continue; fi
  [ "$("$out/${level#*:}")" = "$(cat "$out/log")" ] || [ "${level%:*}" = avx2 ] || fault "${level#*:} computes other bits"
  [ "$(WEFT_ISA=${level%:*} "$out/${level#*:}")" = "$(cat "$out/log")" ] || fault "${level#*:} computes other bits at ${level%:*}"
  said=$(WEFT_ISA=portable "$out/${level#*:}") && fault "${level#*:} takes WEFT_ISA=portable"
  wanted="WEFT_ISA=portable has no kernels here: the program is compiled for ${level%:*} and above, by -march; compile it without."
  [ "$said" = "$wanted" ] || fault "${level#*:} says: $said"
done
echo "-march: the kernels below it are left out"
