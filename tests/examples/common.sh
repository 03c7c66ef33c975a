# To be sourced by the tests of a command, with its name: `program` is the command, the current folder, `here`, an empty one that goes
# away, `version` the library's. `fault WORDS` counts a fault; a test ends well where `faults` is 0. Exits with 77 where the command isn't built.
set -uo pipefail
program="$WEFT_BINARY_DIR/examples/$1"
if [ ! -x "$program" ]; then
  echo "examples/$1 is not built (a library that it takes is missing, see examples/CMakeLists.txt, or WEFT_BUILD_EXAMPLES is off)"
  exit 77
fi
version=$(sed -n 's/^project(weft VERSION \([0-9.]*\) .*/\1/p' "$WEFT_SOURCE_DIR/CMakeLists.txt")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
faults=0
fault() { echo "FAULT: $*"; faults=$((faults + 1)); }
# said PHRASE: on stderr, which is in `err`.
said() { grep -qF -- "$1" err || fault "it does not say '$1' but: $(cat err)"; }

# refused STATUS PHRASE OPTIONS...: the command says one sentence, which has the phrase, and nothing on stdout.
refused() {
  local status=$1 phrase=$2 code
  shift 2
  timeout 120 "$program" "$@" </dev/null >out 2>err  # what should be refused and is not may go on for minutes
  code=$?
  [ "$code" = "$status" ] || fault "$* exits with $code, not $status"
  [ "$(wc -l <err)" = 1 ] || fault "$* says more or less than one line: $(cat err)"
  grep -qF -- "$phrase" err || fault "$* does not say '$phrase' but: $(cat err)"
  [ ! -s out ] || fault "$* writes to stdout: $(head -n 3 out)"
}
