#!/usr/bin/env bash
# docs/known_bugs.md names every test called "bug: ...", with the file that it is in, and no test that isn't there.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
in_tests() {
  grep -rHo 'TEST_CASE("bug: [^"]*"' tests --include='*_test.cpp' |
    sed -E 's|^tests/(.*)_test\.cpp:TEST_CASE\("(.*)"$|\2 \| \1|' | LC_ALL=C sort
}
in_page() { sed -nE 's/^\|.*\| `(bug: [^`]*)` \| ([^ ]*) \|$/\1 | \2/p' docs/known_bugs.md | LC_ALL=C sort; }
[ -n "$(in_tests)" ] || { echo "no test is called 'bug: ...'"; exit 1; }
diff <(in_tests) <(in_page) || { echo "docs/known_bugs.md (>) and the tests (<) name different bugs"; exit 1; }
