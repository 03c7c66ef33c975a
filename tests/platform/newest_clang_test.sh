#!/usr/bin/env bash
# The newest clang with its libc++, from PyPI's ziglang, which has headers for musl and macOS too. Every run compiles the first example;
# --all compiles and links program.cpp, for which it builds its libraries, and runs what runs here.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
version=0.17.1 place="${XDG_CACHE_HOME:-$HOME/.cache}/weft/ziglang-0.17.1"
if [ ! -x "$place/ziglang/zig" ]; then
  wants pip3 python3-pip
  pip3 download -q --no-deps -d "$out" "ziglang==$version" || { echo "skipped: PyPI has no ziglang $version for this system, or can't be reached"; exit 77; }
  mkdir -p "$place"
  python3 -m zipfile -e "$out"/ziglang-*.whl "$place"
  chmod +x "$place/ziglang/zig"
fi
compile() { quietly "$place/ziglang/zig" c++ -std=c++20 -Wall -Wextra -Werror -I "$WEFT_SOURCE_DIR/include" -target "$@"; }
"$place/ziglang/zig" c++ --version | head -n 1
for target in x86_64-linux-musl aarch64-macos; do
  given=()
  [ $target != aarch64-macos ] || given=(-DWEFT_UNTESTED_PLATFORM)
  if [ -z "${WEFT_TEST_ALL:-}" ]; then
    compile $target "${given[@]}" -O0 -c "$WEFT_SOURCE_DIR/examples/01_first.cpp" -o "$out/first.o"
  else
    compile $target "${given[@]}" -O1 "$here/program.cpp" -o "$out/program"
    [ $target = aarch64-macos ] || "$out/program"
  fi
  echo "$target"
done
