#!/usr/bin/env bash
# reference.sh FOLDER: writes the reference of all public headers, a page for each folder of include/weft, and their index.
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
for folder in include/weft/*/; do
  name=$(basename "$folder")
  depth=1  # below a folder lie its details, but in testing/
  [ "$name" = testing ] && depth=2
  mapfile -t headers < <(find "$folder" -maxdepth $depth -name '*.hpp' | LC_ALL=C sort)
  [ ${#headers[@]} -gt 0 ] || continue
  awk -v up=../../ -f docs/tools/reference.awk "${headers[@]}" >"$out/body"
  if [ -s "$out/body" ]; then
    { echo "# Reference: $name/"; awk -f docs/tools/examples.awk "${programs[@]}" page=1 "$out/body"; } >"$out/$name.md"
    echo "- [$name/]($name.md): $(grep -c '^### ' "$out/body") entries" >>"$out/README.md"
  fi
  rm -f "$out/body"
done
