#!/usr/bin/env bash
# reference.sh FOLDER: writes the reference of all public headers, a page for each folder of include/weft, and their index: what
# reference.py finds, with examples.
set -euo pipefail
out=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out"
mapfile -t programs < <(
  export LC_ALL=C
  ls examples/*.cpp docs/*.md docs/policies/*.md
  find tests \( -name '*_test.cpp' -o -path tests/laws/gradients.hpp \) -not -path 'tests/allocation/*' | sort
)
{
  echo '# Reference'
  echo
  echo 'Every public function, type and value, as the headers say it, and under each function a line that calls it, of a program that the tests compile and run. Made by `docs/tools/generate.sh reference`.'
  echo
} >"$out/README.md"
python=''
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'from clang import cindex' 2>/dev/null; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
  echo "reference.sh: no python3 has clang's bindings (Debian: apt-get install python3-clang-14)" >&2
  exit 1
fi
"$python" docs/tools/reference.py "$out"
for body in "$out"/*.body; do
  name=$(basename "$body" .body)
  { echo "# Reference: $name/"; awk -f docs/tools/examples.awk "${programs[@]}" page=1 "$body"; } >"$out/$name.md"
  echo "- [$name/]($name.md): $(grep -c '^### ' "$body") entries" >>"$out/README.md"
  rm "$body"
done
