#!/usr/bin/env bash
# snippets.sh [--wrong] COMPILER PRECOMPILED PAGE.md: every ```cpp block of a page of documentation compiles (syntax only).
#   - A block with `int main` compiles as it stands.
#   - Any other is put in the body of a function, or else, if that fails, at namespace scope; its own #include lines,
#     <weft/weft.hpp> and `using namespace weft;` come first.
#   - An HTML comment `<!-- given` ... `-->` (lines of code between; invisible to the reader) before a block is put
#     ahead of that block: what the block takes as known. `<!-- given namespace` puts it at namespace scope.
#   - `<!-- ranks: launch<S>({.tp = 2}) -->` before a block puts it and what is given into the function of that launch, as `ctx`.
#   - A block opened by ```cpp wrong must NOT compile, and every line of the ```text block that follows it must stand
#     in the compiler's output.
#   - A line `<!-- not compiled: REASON -->` before a block leaves it out.
# blocks.awk finds the blocks; run_page.sh runs those that aren't wrong, which --wrong leaves out.
# PRECOMPILED: see compile_fail.sh.
set -euo pipefail
only=''
if [ "$1" = --wrong ]; then only=wrong && shift; fi
compiler=$1 precompiled=$2 page=$3
here="$(dirname "${BASH_SOURCE[0]}")"
include="$here/../../include"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v work="$work" -f "$here/blocks.awk" "$page"

command=("$compiler" -std=c++20 -Wall -Wextra -Wno-unused -fsyntax-only -I "$include")

# try SOURCE: its output goes to SOURCE.out.
try() {
  local extra=()
  if [ -n "$precompiled" ] && grep -q '^#include <weft/weft.hpp>' "$1"; then extra=(-include "$precompiled"); fi
  "${command[@]}" "${extra[@]}" "$1" >"$1.out" 2>&1
}

# assemble BLOCK body|namespace: prints a translation unit.
assemble() {
  grep -h '^#include' "$1.code" || true
  echo '#include <weft/weft.hpp>'
  echo 'using namespace weft;'
  cat "$1.names"
  [ "$2" = body ] && echo 'inline auto snippet() {'
  [ "$2" = body ] && [ -e "$1.ranks" ] && sed 's/)$/, [\&](context\& ctx) {/' "$1.ranks"
  cat "$1.given"
  echo "#line $(($(cat "$1.line") + 1)) \"$page\""
  sed '/^#include/s/.*//' "$1.code"
  [ "$2" = body ] && [ -e "$1.ranks" ] && echo '});'
  [ "$2" = body ] && echo '}'
  return 0
}

failures=0 tried=0
count=$(cat "$work/count")
for ((i = 1; i <= count; ++i)); do
  block="$work/$i"
  where="$page:$(cat "$block.line")"
  kind=$(cat "$block.kind")
  if [ "$kind" = shell ] || [ -e "$block.uncompiled" ] || { [ -n "$only" ] && [ "$kind" != wrong ]; }; then continue; fi
  tried=$((tried + 1))
  attempts=()
  if grep -q 'int main' "$block.code"; then
    { echo "#line $(($(cat "$block.line") + 1)) \"$page\""; cat "$block.code"; } >"$block.main.cpp"
    attempts=("$block.main.cpp")
  else
    assemble "$block" body >"$block.body.cpp"
    assemble "$block" namespace >"$block.namespace.cpp"
    attempts=("$block.body.cpp" "$block.namespace.cpp")
  fi
  compiled=no
  for source in "${attempts[@]}"; do
    if try "$source"; then compiled=yes; break; fi
  done
  if [ "$kind" != wrong ]; then
    if [ $compiled = no ]; then
      echo "$where: this snippet does not compile:"
      for source in "${attempts[@]}"; do head -n 60 "$source.out"; done
      failures=$((failures + 1))
    fi
  elif [ $compiled = yes ]; then
    echo "$where: this snippet is called wrong, and compiles"
    failures=$((failures + 1))
  elif ! grep -q '[^ ]' "$block.said" 2>/dev/null; then
    echo "$where: the \`\`\`text block after this wrong program is empty"
    failures=$((failures + 1))
  else
    cat "${attempts[@]/%/.out}" >"$block.out"
    while IFS= read -r sentence; do
      if [ -n "$sentence" ] && ! grep -qF -- "$sentence" "$block.out"; then
        echo "$where: this wrong snippet is refused, but not with: $sentence"
        head -n 100 "$block.out"
        failures=$((failures + 1))
      fi
    done <"$block.said"
  fi
done
echo "$page: $count snippets, $tried compiled, $failures failures"
[ "$failures" = 0 ]
