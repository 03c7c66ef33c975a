#!/usr/bin/env bash
# docs/using.md says what the tests build: each line of its cmake blocks stands in a project of tests/install, and each
# option of its table in CMakeLists.txt with that name. What cmake is told to install is what the tests install.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
faults=0
count=0
while IFS= read -r line; do
  line=${line%%  #*}
  [ -n "$line" ] || continue
  count=$((count + 1))
  [ "$line" = 'add_subdirectory(weft)' ] && line='add_subdirectory("${WEFT_SOURCE_DIR}" weft)'
  grep -qF -- "$line" tests/install/*/CMakeLists.txt || { echo "no project of tests/install says: $line"; faults=$((faults + 1)); }
done < <(awk '/^```/ { inside = $0 == "```cmake"; next } inside' docs/using.md)
[ "$count" -ge 6 ] || { echo "docs/using.md has $count lines of cmake; has its form changed?"; exit 1; }
for option in $(grep -oE '`WEFT_[A-Z_]+`' docs/using.md | tr -d '`' | sort -u); do
  grep -qE "(option|set)\($option " CMakeLists.txt || { echo "there is no option $option"; faults=$((faults + 1)); }
done
for told in "g++ $(sed -n 's/.*__GNUC__ < \([0-9]*\).*/\1/p' include/weft/core/requirements.hpp)" \
  "clang $(sed -n 's/.*__clang_major__ < \([0-9]*\).*/\1/p' include/weft/core/requirements.hpp)" \
  "$(sed -n 's/^cmake_minimum_required(VERSION \(.*\))/| CMake | \1/p' CMakeLists.txt)"; do
  grep -qF "$told" docs/using.md || { echo "docs/using.md doesn't say '$told'"; faults=$((faults + 1)); }
done
echo "$count lines, $faults faults"
[ "$faults" = 0 ]
