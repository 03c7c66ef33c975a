#!/usr/bin/env bash
# reference.sh FOLDER: writes the reference of all public headers, a page for each folder of include/weft, and their index.
set -euo pipefail
out=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "$out"
{
  echo '# Reference'
  echo
  echo 'Every public function, type and value, as the headers say it. Made by `docs/tools/generate.sh reference`.'
  echo
} >"$out/README.md"
for folder in include/weft/*/; do
  name=$(basename "$folder")
  mapfile -t headers < <(find "$folder" -maxdepth 1 -name '*.hpp' | LC_ALL=C sort)
  [ ${#headers[@]} -gt 0 ] || continue
  awk -v up=../../ -f docs/tools/reference.awk "${headers[@]}" >"$out/body"
  if [ -s "$out/body" ]; then
    { echo "# Reference: $name/"; cat "$out/body"; } >"$out/$name.md"
    echo "- [$name/]($name.md): $(grep -c '^### ' "$out/body") entries" >>"$out/README.md"
  fi
  rm -f "$out/body"
done
