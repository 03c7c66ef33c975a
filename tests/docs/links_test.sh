#!/usr/bin/env bash
# Every link of a page to a file of the repository leads somewhere, and every page of docs/ is reached from docs/README.md's links
# or from a page that is.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
failures=0
fault() { echo "$*"; failures=$((failures + 1)); }

# links PAGE: the files that it links to, as paths from the root of the repository, outside of code.
links() {
  awk '/^```/ { code = !code; next } !code { gsub(/`[^`]*`/, ""); print }' "$1" | { grep -o '](\([^)#]*\)[^)]*)' || true; } | sed 's/^](//; s/[#)].*//' |
    grep -v -e '^$' -e '^[a-z]*:' | while read -r target; do realpath -ms --relative-to=. "$(dirname "$1")/$target"; done
}

pages=(README.md tests/README.md $(find docs -name '*.md' | sort))
count=0
for page in "${pages[@]}"; do
  for target in $(links "$page"); do
    count=$((count + 1))
    [ -e "$target" ] || fault "$page: there is no $target"
  done
done
[ "$count" -ge 20 ] || fault "found $count links only; have their form changed?"

# A policy of one's own that a page shows is short: less than 100 lines, and there is one of each kind.
own=0
for target in $(for page in "${pages[@]}"; do links "$page"; done | grep '^tests/.*\.hpp$' | sort -u); do
  own=$((own + 1))
  [ "$(wc -l <"$target")" -lt 100 ] || fault "$target: 100 lines or more, of which a page says that it is short"
done
[ "$own" -ge 4 ] || fault "pages link to $own policies of one's own, where a backend, a communicator, an optimizer and a schedule are meant"

reached=" docs/README.md "
todo=(docs/README.md)
while [ ${#todo[@]} -gt 0 ]; do
  page=${todo[0]}
  todo=("${todo[@]:1}")
  for target in $(links "$page"); do
    [[ $target == *.md && -e $target && $reached != *" $target "* ]] || continue
    reached+="$target "
    todo+=("$target")
  done
done
for page in "${pages[@]}"; do
  [[ $page == docs/* && $reached != *" $page "* ]] && fault "$page: no page that is reached from docs/README.md links to it"
done

echo "$count links of ${#pages[@]} pages, $failures failures"
[ "$failures" = 0 ]
