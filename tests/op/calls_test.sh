#!/usr/bin/env bash
# What is said to a call of an operator that is wrong in its form: calls.txt has, for each operator, calls of each kind (too few
# arguments, one too many, no tag, an axis for a dimension, a number for a tensor, ...). Each has one error, which is a sentence
# of Weft's and stands with the call's line in at most 25 lines; how the operator is written compiles.
# The first calls of all operators are one program, the second ones another: no call hides behind an error of its own operator's.
# clang is asked for all of them, g++ for a third, and nvcc, where it is found, for one call of every eighth kind; with
# WEFT_TEST_ALL=yes g++ too is asked for all, and nvcc for one call of each kind.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include="${WEFT_SOURCE_DIR:-$here/../..}/include"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lines=25

header='#include <weft/weft.hpp>
using namespace weft;
using X = tensor<float, dims<batch, seq, hidden>>;
using M = tensor<std::uint8_t, dims<batch, seq, hidden>>;
using I = tensor<std::int32_t, dims<batch, seq>>;
using W = tensor<float, dims<hidden>>;
using V = tensor<float, dims<ffn, hidden>>;
using T = tensor<float, dims<vocab, hidden>>;
using L = tensor<float, dims<batch, seq, vocab>>;
using Q = tensor<float, dims<batch, seq, heads, head_dim>>;
using H = tensor<float, dims<batch, seq, hidden>, shard<hidden, tp>>;
using P = tensor<float, dims<batch, seq, hidden>, partial<tp>>;
using S = tensor<float, dims<>>;
struct same {
  static constexpr std::string_view name = "same";
  X forward(const X& x) const { return x; }
  X vjp(const X& dy) const { return dy; }
};
struct copied {
  void operator()(auto y, auto x) const { y[0] = x[0]; }
};
struct given {
  context& ctx;
  X x; M m; I i; W w; V v; T t; L l; Q q; H h; P p; S s;
  rope_table table;
};
'
# call NAME CALL: a function on one line.
call() { sed -E 's/\b(ctx|x|m|i|w|v|t|l|q|h|p|s|table)\b/g.\1/g' <<<"$2" | sed "s/^.*\$/auto call_$1(given\& g) { (void)g; return &; }/"; }

# Of calls.txt: "NUMBER|KIND|CALL" a line, number 0 for how an operator is written, 1 for its first wrong call.
awk -F ' +[|] +' '/^#/ || !NF { next }
  { print "0|right|" $1
    for (i = 2; i <= NF; ++i) { at = index($i, ": "); print i - 1 "|" substr($i, 1, at - 1) "|" substr($i, at + 2) } }' \
  "$here/calls.txt" >"$work/calls"
if [ "$(grep -c '^0|' "$work/calls")" -lt 40 ] || [ "$(grep -vc '^0|' "$work/calls")" -lt 200 ]; then
  echo "calls.txt: too few calls were read"
  exit 1
fi

program() { # FILE: a program of the calls on the standard input
  printf '%s' "$header" >"$1"
  local line n=0
  while IFS= read -r line; do call $((n++)) "$line"; done >>"$1"
}

# judged FILE OUTPUT: what is wrong with what the compiler said to FILE's calls.
judged() {
  awk -v lines=$lines -v file="$(basename "$1")" '
    NR == FNR { if (/^auto call_/) { source[FNR] = $0; ++calls } next }
    {
      n += !/^In file included from |^ +from /  # how headers include each other is nothing that a call can help
      rest = $0
      while (match(rest, file "[:(][0-9]+")) {
        said[substr(rest, RSTART + length(file) + 1, RLENGTH - length(file) - 1)] = 1
        rest = substr(rest, RSTART + RLENGTH)
      }
      if (match(rest = $0, /at line [0-9]+/)) said[substr(rest, RSTART + 8, RLENGTH - 8)] = 1
    }
    / error: |^error: | error [A-Z0-9]+: / {
      ++errors
      if (!/weft: /) print "no sentence of Weft: " $0
      if (n - last > lines && last) print "the error before this one takes " n - last " lines: " $0
      last = n
    }
    END {
      for (line in source) if (!(line in said)) print "nothing is said of " source[line]
      if (errors != calls) print errors + 0 " errors for " calls " calls"
      if (n > lines * calls) print n " lines for " calls " calls"
    }' "$1" "$2"
}

failed=0
for compiler in "${CXX:-g++}" $(command -v clang++ clang++-14 | head -n 1); do
  ask=(env LC_ALL=C "$compiler" -std=c++20 -fsyntax-only -I "$include")
  name=g++ every=3
  "$compiler" --version | grep -q clang && name=clang++ every=1 && ask+=(-ferror-limit=0)
  [ "${WEFT_TEST_ALL:-}" != yes ] || every=1
  [ ! -f "${WEFT_PRECOMPILED:-}/$name/all.hpp" ] || ask+=(-include "$WEFT_PRECOMPILED/$name/all.hpp")
  while IFS= read -r number; do
    file="$work/calls_$number.cpp"
    grep "^$number|" "$work/calls" | cut -d '|' -f 3- | program "$file"
    if [ "$number" = 0 ]; then
      "${ask[@]}" "$file" || failed=1
      continue
    fi
    [ $((number % every)) = $((1 % every)) ] || continue
    if "${ask[@]}" "$file" >"$work/said" 2>&1; then
      echo "$compiler takes every call number $number"
      failed=1
    fi
    judged "$file" "$work/said" >"$work/faults"
    if [ -s "$work/faults" ]; then
      echo "$compiler, calls number $number:"
      cat "$work/faults"
      failed=1
    fi
  done < <(cut -d '|' -f 1 "$work/calls" | sort -un)
done

# One by one: where an operator's type is deduced, nvcc's front end ends with that error.
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [ -n "$nvcc" ]; then
  ask=("$nvcc" -x cu -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -arch=sm_90 -I "$include" -cuda -o
    "$work/front.ii")
  nth=0 every=8
  [ "${WEFT_TEST_ALL:-}" != yes ] || every=1
  while IFS= read -r kind; do
    mapfile -t of_kind < <(grep "|$kind|" "$work/calls" | cut -d '|' -f 3-)
    call=${of_kind[$((5 * nth++ % ${#of_kind[@]}))]}
    program "$work/one.cu" <<<"$call"
    if "${ask[@]}" "$work/one.cu" >"$work/said" 2>&1; then
      echo "nvcc takes $call"
      failed=1
    fi
    judged "$work/one.cu" <(grep -A $lines ' error: ' "$work/said") >"$work/faults"
    if [ -s "$work/faults" ]; then
      echo "nvcc, $call:"
      cat "$work/faults"
      failed=1
    fi
  done < <(cut -d '|' -f 2 "$work/calls" | grep -v '^right$' | sort -u | awk -v every=$every 'NR % every == 1 % every')
fi
exit $failed
