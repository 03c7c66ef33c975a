# To be sourced by the tests of this folder. `out` is an empty folder that goes away; `consume WAY OPTIONS...` configures,
# builds and runs the consumer project of that folder. Nothing here uses the network.
set -euo pipefail
here="$WEFT_SOURCE_DIR/tests/install"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# install_to PREFIX: installs from the build folder, then moves the result, which must not remember where it was.
install_to() {
  cmake --install "$WEFT_BINARY_DIR" --prefix "$out/before" >"$out/install.log" || { cat "$out/install.log"; exit 1; }
  mv "$out/before" "$1"
}

# Consumers are built as the library's tests are; make may be missing.
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$WEFT_BINARY_DIR/CMakeCache.txt")
export CMAKE_GENERATOR

quietly() { "$@" >"$out/log" 2>&1 || { cat "$out/log"; echo "FAULT: $*"; exit 1; }; }

consume() {
  local way=$1
  shift
  quietly cmake -S "$here/$way" -B "$out/build" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_BUILD_TYPE=Debug "$@"
  quietly cmake --build "$out/build"
  "$out/build/program"
}
