# To be sourced by the tests of this folder. `out` is an empty folder that goes away. `build COMPILER OPTIONS...` compiles
# program.cpp, without a warning of the usual ones, to $out/program.
set -euo pipefail
here="$WEFT_SOURCE_DIR/tests/platform"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# wants COMMAND PACKAGE: the test is skipped, aloud, where the command is not there.
wants() { command -v "$1" >/dev/null || { echo "skipped: $1 is not here (Debian: apt-get install $2)"; exit 77; }; }
quietly() { "$@" >"$out/log" 2>&1 || { head -n 60 "$out/log"; echo "FAULT: $*"; exit 1; }; }
build() {
  local compiler=$1
  shift
  quietly "$compiler" -std=c++20 -Wall -Wextra -Werror -I "$WEFT_SOURCE_DIR/include" "$here/program.cpp" -o "$out/program" -pthread "$@"
}
