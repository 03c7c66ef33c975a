#!/usr/bin/env bash
# What core/requirements.hpp refuses: each with its one sentence, and nothing after it but that the compilation ends.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
echo '#include <weft/weft.hpp>' >"$out/umbrella.cpp"
faults=0

# refused SENTENCE COMPILER OPTIONS...: both headers that come first for somebody, the umbrella and one deep inside it.
refused() {
  local sentence=$1 code=0
  shift
  "$@" -I "$WEFT_SOURCE_DIR/include" -fsyntax-only "$out/umbrella.cpp" >"$out/said" 2>&1 || code=$?
  if [ $code = 0 ]; then
    echo "FAULT: accepted: $*" && faults=$((faults + 1))
  elif ! grep -E 'error: ' "$out/said" | head -n 1 | grep -qF -- "$sentence"; then
    echo "FAULT: not refused with '$sentence' at first: $*" && grep 'error: ' "$out/said" | head -n 3 && faults=$((faults + 1))
  elif [ "$(grep -cE 'error: ' "$out/said")" != 2 ]; then
    echo "FAULT: more is said than that sentence: $*" && grep 'error: ' "$out/said" | head -n 5 && faults=$((faults + 1))
  fi
}

gcc=$(case $("$CXX" --version) in *clang*) echo g++ ;; *) echo "$CXX" ;; esac)
for compiler in "$gcc" clang++; do
  command -v "$compiler" >/dev/null || { echo "note: $compiler is not here"; continue; }
  refused 'this is not C++20' "$compiler" -std=c++17
  refused 'this is not C++20' "$compiler"
  refused 'compile without -fno-exceptions' "$compiler" -std=c++20 -fno-exceptions
  refused '-ffast-math and -Ofast silently change' "$compiler" -std=c++20 -ffast-math
  refused '-ffast-math and -Ofast silently change' "$compiler" -std=c++20 -Ofast
  refused '-ffinite-math-only hides NaN' "$compiler" -std=c++20 -ffinite-math-only
  refused 'no 64-bit addresses' "$compiler" -std=c++20 -m32
  refused "MSVC's dialect" "$compiler" -std=c++20 -D_MSC_VER=1930
  refused 'not on this system' "$compiler" -std=c++20 -U__linux__
  refused 'not on this processor' "$compiler" -std=c++20 -U__x86_64__ -U__aarch64__
  refused 'big-endian' "$compiler" -std=c++20 -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ -Wno-builtin-macro-redefined
done
refused 'neither g++ 12 or later nor clang 14' "$gcc" -std=c++20 -U__GNUC__ -D__GNUC__=11
refused '-fassociative-math and -funsafe-math-optimizations silently' "$gcc" -std=c++20 -funsafe-math-optimizations
refused '-fassociative-math and -funsafe-math-optimizations silently' "$gcc" -std=c++20 -fassociative-math -fno-signed-zeros -fno-trapping-math
if [ "$(uname -m)" = x86_64 ]; then refused 'without -mfpmath=387' "$gcc" -std=c++20 -mfpmath=387; fi
if command -v clang++ >/dev/null; then
  refused 'this clang is older than 14' clang++ -std=c++20 -U__clang_major__ -D__clang_major__=13
fi
if command -v x86_64-w64-mingw32-g++-win32 >/dev/null; then
  refused 'has no threads' x86_64-w64-mingw32-g++-win32 -std=c++20
fi

# Two ways round, which have to work: the system not tested, and no run-time type information.
quietly "$gcc" -std=c++20 -I "$WEFT_SOURCE_DIR/include" -fsyntax-only -fno-rtti "$out/umbrella.cpp"
echo '#include <weft/core/requirements.hpp>' >"$out/alone.cpp"
quietly "$gcc" -std=c++20 -I "$WEFT_SOURCE_DIR/include" -fsyntax-only -U__linux__ -DWEFT_UNTESTED_PLATFORM "$out/alone.cpp"
echo "$faults faults"
[ "$faults" = 0 ]
