#!/usr/bin/env bash
# include_order.sh [REPOSITORY]: the walls of the house. For every header under include/weft it requires:
#   - it includes only its own folder and folders before it in `order` (weft.hpp and weft.cuh may include all);
#   - a .hpp never includes a .cuh;  - what it includes exists;
#   - it declares, without defining it, only what its own folder and those before it define;
#   - it has #pragma once (a .inl, text to be included several times, needs none);
#   - it has at most 400 lines, in autograd/, comm/, parallel/ and train/ 250;
#   - heavy standard headers stay in the last two folders;
#   - its sentences have no backtick, for which nvcc prints a question mark;
#   - no lambda stands in a pack's expansion: g++ names the first one first, clang the last one, and a program of both calls one for the other;
#   - a header that includes no other of the library includes core/requirements.hpp, if it is there.
# Prints one line per fault, as file:line: sentence, and exits with 1 if there is one.
set -euo pipefail
order='core memory comm backend policy tensor autograd op nn optim parallel io train compiled plan testing'
heavy='iostream ranges format regex'
heavy_from='io'
max_lines=400
short='autograd comm parallel train'
short_lines=250

cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
list=$(mktemp)
defined=$(mktemp)
trap 'rm -f "$list" "$defined"' EXIT
find include/weft -type f \( -name '*.hpp' -o -name '*.cuh' -o -name '*.inl' \) 2>/dev/null | LC_ALL=C sort >"$list" || true
if [ ! -s "$list" ]; then
  echo "include/weft: there are no headers here to check"
  exit 1
fi

xargs -d '\n' grep -HE '^(class|struct) (\[\[[a-z_:]+\]\] )?[a-z0-9_]+( final)?( : .*)? \{' <"$list" |
  sed -E 's/^([^:]*):(class|struct) (\[\[[a-z_:]+\]\] )?([a-z0-9_]+).*/\4 \1/' >"$defined" || true
xargs -d '\n' awk -v order="$order" -v defined="$defined" -v heavy="$heavy" -v heavy_from="$heavy_from" -v max_lines="$max_lines" \
  -v short="$short" -v short_lines="$short_lines" '
  function fault(line, sentence) { print file ":" line ": " sentence; faults++ }
  function folder_of(path) {  # include/weft/op/x.hpp -> op; include/weft/weft.hpp -> ""
    sub(/^include\/weft\//, "", path)
    return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : ""
  }
  function normal(path,  n, part, i, out, top) {  # resolves . and ..
    n = split(path, part, "/"); top = 0
    for (i = 1; i <= n; i++) {
      if (part[i] == "..") { if (top > 0) top-- }
      else if (part[i] != "." && part[i] != "") out[++top] = part[i]
    }
    path = out[1]
    for (i = 2; i <= top; i++) path = path "/" out[i]
    return path
  }
  function finish() {
    if (file == "") return
    if (!once && file !~ /\.inl$/) fault(1, "there is no #pragma once")
    if (!inner && file !~ /\.inl$/ && file != first && first in exists)
      fault(1, "it includes no other header of the library, so it has to include <weft/core/requirements.hpp>")
    most = index(" " short " ", " " folder_of(file) " ") ? short_lines : max_lines
    if (lines > most) fault(lines, "the header has " lines " lines, above the limit of " most "; split it")
  }
  function begin(  name) {
    file = FILENAME; once = inner = 0; lines = 0; here = folder_of(file)
    name = file; sub(/.*\//, "", name)
    umbrella = here == "" && (name == "weft.hpp" || name == "weft.cuh")
    if (here == "" && !umbrella) fault(1, "only weft.hpp and weft.cuh live in include/weft itself; move it to a folder")
    if (here != "" && !(here in place)) fault(1, "the folder " here "/ is not in the order (" order ")")
  }
  BEGIN {
    first = "include/weft/core/requirements.hpp"
    n = split(order, name, " "); for (i = 1; i <= n; i++) place[name[i]] = i
    while ((getline text < defined) > 0) { split(text, name, " "); by[name[1]] = name[2] }
    n = split(heavy, name, " "); for (i = 1; i <= n; i++) is_heavy[name[i]] = 1
  }
  NR == FNR { exists[$0] = 1; next }
  FNR == 1 { finish(); begin() }
  { lines = FNR }
  /^[^\/]*"[^"]*`/ { fault(FNR, "a backtick in a sentence, for which nvcc prints a question mark: write a quote") }
  /\(\(\[[&=a-z]*\]/ { fault(FNR, "a lambda in a pack expansion, which g++ and clang name in another order: give it a name before, and call that") }
  /^(class|struct) [a-z0-9_]+;/ {
    text = $2; sub(/;.*/, "", text)
    if (!umbrella && (text in by) && place[folder_of(by[text])] > place[here])
      fault(FNR, "it declares " text ", which " by[text] " defines, in a folder after " here "/ in the order")
  }
  /^[ \t]*#[ \t]*pragma[ \t]+once/ { once = 1 }
  /^[ \t]*#[ \t]*include/ {
    text = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", text)
    quoted = text ~ /^"/
    sub(/^[<"]/, "", text); sub(/[>"].*/, "", text)
    if (text in is_heavy && here != "" && place[here] < place[heavy_from])
      fault(FNR, "<" text "> is slow to compile and stays in " heavy_from "/ and after it")
    target = ""
    if (text ~ /^weft\//) target = normal("include/" text)
    else if (quoted) { target = file; sub(/[^\/]*$/, "", target); target = normal(target text) }
    if (target == "") next
    inner = 1
    if (!(target in exists)) { fault(FNR, "it includes " text ", which does not exist"); next }
    if (file !~ /\.cuh$/ && target ~ /\.cuh$/) fault(FNR, "a .hpp never includes a .cuh, and this one includes " text)
    if (umbrella) next
    there = folder_of(target)
    if (there == "") fault(FNR, "it includes the umbrella " text "; include what is needed instead")
    else if (place[there] > place[here])
      fault(FNR, here "/ comes before " there "/ in the order, so it may not include " text)
  }
  END { finish(); exit faults > 0 }
' "$list" <"$list"
