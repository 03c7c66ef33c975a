#!/usr/bin/env bash
# lambda_names.sh GXX_LIBRARY CLANG_OBJECT: no lambda of a function has, as g++ compiled it, the name of another one as clang did. g++ numbers
# the lambdas of a function through, clang those of each signature: {lambda(int)#3} is g++'s third where it takes an int, and clang's third of
# those that take one. A program of clang that links a library of g++ would call the one for the other, unless those of a signature that
# has several stand first in their function. Judged by the names in both files: a lambda that was inlined has none there.
set -euo pipefail
names() { nm -C --defined-only "$1" | sed -n -E 's/^[0-9a-f]* +. //; /\{lambda\(/p' | sort -u; }
awk '
  # Each lambda in a line: its function, found backwards to where a bracket opens that is not closed, its signature and its number.
  function lambdas(line, file,    at, from, depth, c, i, end, function_name, sig, n) {
    for (from = 1; (i = index(substr(line, from), "::{lambda(")) > 0; from = at + 10) {
      at = from + i - 1
      depth = 0
      for (i = at - 1; i > 0; --i) {
        c = substr(line, i, 1)
        if (c ~ /[])}>]/) ++depth
        else if (c ~ /[[({<]/ && --depth < 0) break
        else if (depth == 0 && (c == "," || c == " " && substr(line, i, 6) != " const")) break
      }
      function_name = substr(line, i + 1, at - i - 1)
      depth = 1
      for (end = at + 10; depth > 0 && end <= length(line); ++end) {
        c = substr(line, end, 1)
        if (c == "(") ++depth
        else if (c == ")") --depth
      }
      if (!match(substr(line, end), /^#[0-9]+/)) continue
      sig = substr(line, at + 10, end - at - 11)
      n = substr(line, end + 1, RLENGTH - 1) + 0
      if (file == 2) {
        if (n > most[function_name, sig]) most[function_name, sig] = n
      } else if (!((function_name, sig, n) in seen)) {
        seen[function_name, sig, n] = 1
        ++count
        its_function[count] = function_name; its_sig[count] = sig; its_number[count] = n
        of[function_name] = of[function_name] " " count
      }
    }
  }
  FNR == 1 { ++files }
  { lambdas($0, files) }
  END {
    for (i = 1; i <= count; ++i) {
      f = its_function[i]; n = its_number[i]; has = most[f, its_sig[i]]
      if (n < 2 || has < n) continue
      ++both
      others = 0; later = 0
      k = split(of[f], peers, " ")
      for (j = 1; j <= k; ++j) {
        p = peers[j]
        if (its_sig[p] != its_sig[i]) others += its_number[p] < n
        else later += its_number[p] > n
      }
      # Of the `has` that clang knows at most has - later stand up to this one.
      if (others || n > has - later) {
        print f "::{lambda(" its_sig[i] ")#" n "} is another lambda to g++ than to clang: let those of its signature stand first in the function"
        ++faults
      }
    }
    print both + 0 " names with a number from 2 on are in both, " faults + 0 " of them of two lambdas"
    exit faults > 0
  }' <(names "$1") <(names "$2")
