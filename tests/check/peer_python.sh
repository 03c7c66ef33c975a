#!/usr/bin/env bash
# peer_python.sh LIST [PIP OPTION...]: prints a Python that has the packages of LIST, a file of requirements of which only the names count
# here: PYTHON [python3], where that has them, or a virtual environment below ${XDG_CACHE_HOME:-~/.cache}/weft, which every checkout uses.
# With WEFT_TEST_ALL=yes (tests/run.sh --all) that is made where it isn't there, by pip. Else, and where pip fails, the exit code is 77, and
# a line says why. The test that asked hands on both the line and the code, which is another where something is wrong here.
set -uo pipefail
list=$1
shift
[ -r "$list" ] || { echo "peer_python.sh: the list of packages $list can't be read"; exit 2; }
has() {
  "$1" - "$list" <<'PYTHON' 2>/dev/null
import re, sys
from importlib.metadata import version
for line in open(sys.argv[1]):
    if line.strip() and line[0] != "#":
        version(re.split("[=<>~]", line.strip())[0])
PYTHON
}
names=$(sed -n 's/^\([^#=<>~][^=<>~]*\).*/\1/p' "$list" | paste -sd ' ')
python=${PYTHON:-python3}
if has "$python"; then echo "$python"; exit; fi
place=${XDG_CACHE_HOME:-$HOME/.cache}/weft/python-$({ python3 -V; cat "$list"; } | sha256sum | cut -c1-16)
mkdir -p "$place" && exec 9>"$place/lock" || { echo "peer_python.sh: $place can't be made"; exit 1; }
flock 9
if [ ! -e "$place/made" ]; then
  if [ "${WEFT_TEST_ALL:-}" != yes ]; then
    echo "skipped: $python lacks some of $names; tests/run.sh --all fetches them from PyPI, or PYTHON names a Python that has them"
    exit 77
  fi
  if ! { python3 -m venv --clear --without-pip "$place/venv" &&
    python3 -m pip --python "$place/venv/bin/python" install -q --no-cache-dir "$@" -r "$list"; } >"$place/log" 2>&1; then
    echo "skipped: pip can't fetch $names: $(tail -n 1 "$place/log")"
    exit 77
  fi
  : >"$place/made"
fi
echo "$place/venv/bin/python"
