#!/usr/bin/env bash
# Windows: cross-built by MinGW-w64 and linked; run too where there is a wine64.
source "$WEFT_SOURCE_DIR/tests/platform/common.sh"
wants x86_64-w64-mingw32-g++-posix g++-mingw-w64-x86-64-posix
build x86_64-w64-mingw32-g++-posix -O1 -static
[ -s "$out/program.exe" ] && [ "$(head -c 2 "$out/program.exe")" = MZ ] || { echo "FAULT: what was linked is no Windows program"; exit 1; }
wine=$(PATH=$PATH:/usr/lib/wine command -v wine64 || true)
if [ -z "$wine" ]; then
  echo "linked; not run, since there is no wine64 here"
else
  WINEPREFIX="$out/wine" WINEDEBUG=-all "$wine" "$out/program.exe"
fi
