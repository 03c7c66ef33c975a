#!/usr/bin/env bash
# The whole tree is formatted by .clang-format, and no line of it is longer than 120. Versions format differently: it is
# 14's word that counts.
set -euo pipefail
command -v clang-format >/dev/null || { echo "skipped: clang-format is not installed"; exit 77; }
case $(clang-format --version) in *'version 14.'*) ;; *) echo "skipped: this is $(clang-format --version), not 14"; exit 77 ;; esac
cd "$WEFT_SOURCE_DIR"
mapfile -t files < <(find include tests examples bench docs/tools -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' -o -name '*.inl' \))
bad=0
long=$(awk 'length($0) > 120 && !/^\/\/ expect[ 0-9]*: / { print FILENAME ":" FNR ": " length($0) " characters" }' "${files[@]}")
[ -z "$long" ] || { echo "$long"; bad=1; }
clang-format --dry-run -Werror "${files[@]}" >/dev/null 2>&1 || {
  for file in "${files[@]}"; do
    clang-format --dry-run -Werror "$file" >/dev/null 2>&1 || echo "$file: not as .clang-format wants it; run clang-format -i $file"
  done
  bad=1
}
exit $bad
