#!/usr/bin/env bash
# snippets.sh COMPILER PRECOMPILED PAGE.md: every ```cpp block of a page of documentation compiles (syntax only).
#   - A block with `int main` compiles as it stands.
#   - Any other is put in the body of a function, or else, if that fails, at namespace scope; its own #include lines,
#     <weft/weft.hpp> and `using namespace weft;` come first.
#   - An HTML comment `<!-- given` ... `-->` (lines of code between; invisible to the reader) before a block is put
#     ahead of that block: what the block takes as known. `<!-- given namespace` puts it at namespace scope.
#   - A block opened by ```cpp wrong must NOT compile, and every line of the ```text block that follows it must stand
#     in the compiler's output.
#   - A line `<!-- not compiled: REASON -->` before a block leaves it out.
# PRECOMPILED: see compile_fail.sh.
set -euo pipefail
compiler=$1 precompiled=$2 page=$3
include="$(dirname "${BASH_SOURCE[0]}")/../../include"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One folder per block, N/: kind (cpp or wrong), line, code, given, given_namespace, and said (the text block).
awk -v work="$work" '
  function put(name, text) { print text > (work "/" n "." name) }
  /^```/ && !inside {
    inside = 1; info = $0; sub(/^```+[ \t]*/, "", info); sub(/[ \t]+$/, "", info); kind = ""
    if (info == "cpp" || info == "cpp wrong") {
      if (wrong) { print FILENAME ":" wrong ": no ```text block follows this wrong program" ; bad = 1 }
      wrong = 0
      if (skip) { skip = 0; given = names = ""; next }
      n++; kind = "code"
      put("line", FNR); put("kind", info == "cpp" ? "right" : "wrong")
      printf "%s", given > (work "/" n ".given"); printf "%s", names > (work "/" n ".names")
      given = names = ""
      if (info == "cpp wrong") wrong = FNR
    } else if (info ~ /^cpp/) { print FILENAME ":" FNR ": a block is ```cpp or ```cpp wrong, not ```" info; bad = 1 }
    else if (info == "text" && wrong) { kind = "said"; wrong = 0 }
    next
  }
  /^```/ { inside = 0; kind = ""; next }
  inside { if (kind != "") put(kind, $0); next }
  /^<!-- not compiled: .+-->/ { skip = 1; next }
  /^<!-- given/ { into = $0 ~ /namespace/ ? "names" : "given"; next }
  into && /^-->/ { into = ""; next }
  into == "given" { given = given $0 "\n"; next }
  into == "names" { names = names $0 "\n"; next }
  END {
    if (inside) { print FILENAME ": a ``` block is not closed"; bad = 1 }
    if (wrong) { print FILENAME ":" wrong ": no ```text block follows this wrong program"; bad = 1 }
    close(work "/count"); print n + 0 > (work "/count")
    exit bad
  }' "$page"

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
  cat "$1.given"
  echo "#line $(($(cat "$1.line") + 1)) \"$page\""
  sed '/^#include/s/.*//' "$1.code"
  [ "$2" = body ] && echo '}'
  return 0
}

failures=0
count=$(cat "$work/count")
for ((i = 1; i <= count; ++i)); do
  block="$work/$i"
  where="$page:$(cat "$block.line")"
  touch "$block.code"
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
  if [ "$(cat "$block.kind")" = right ]; then
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
echo "$page: $count snippets, $failures failures"
[ "$failures" = 0 ]
