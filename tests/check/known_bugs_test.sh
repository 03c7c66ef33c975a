#!/usr/bin/env bash
# docs/known_bugs.md names every test called "bug: ...", with the file that it is in, and no test that isn't there.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
# A name may stand on a line of its own, or in several strings one after the other.
in_tests() {
  find tests -name '*_test.cpp' | while read -r file; do
    tr '\n' ' ' <"$file" | sed -E 's/TEST_CASE\( +/TEST_CASE(/g; s/" +"//g' | grep -o 'TEST_CASE("bug: [^"]*"' |
      sed -E "s|^TEST_CASE\(\"(.*)\"\$|\1 \| $(sed -E 's|^tests/(.*)_test\.cpp$|\1|' <<<"$file")|" || true
  done | LC_ALL=C sort
}
in_page() { sed -nE 's/^\|.*\| `(bug: [^`]*)` \| ([^ ]*) \|$/\1 | \2/p' docs/known_bugs.md | LC_ALL=C sort; }
[ -n "$(in_tests)" ] || { echo "no test is called 'bug: ...'"; exit 1; }
diff <(in_tests) <(in_page) || { echo "docs/known_bugs.md (>) and the tests (<) name different bugs"; exit 1; }
