#!/usr/bin/env bash
# The element types of every operator are checked at its door: for each operator, and each type that it doesn't compute with, the
# compiler says one sentence, which names the operator, and the type stands beside it; no kernel is ever looked at. What the
# sentence says to write compiles. All wrong calls are one program, and so are all right ones: two runs of each compiler.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the sentence says of the operator, and a call of it. X, Y, Z: tensors of integers or what replaces them.
cat >"$work/calls" <<'CALLS'
exp(x)|exp(X)
log(x)|log(X)
sqrt(x)|sqrt(X)
rsqrt(x)|rsqrt(X)
reciprocal(x)|reciprocal(X)
square(x)|square(X)
abs(x)|abs(X)
tanh(x)|tanh(X)
sigmoid(x)|sigmoid(X)
relu(x)|relu(X)
silu(x)|silu(X)
gelu(x)|gelu(X)
gelu_exact(x)|gelu_exact(X)
scale(x, number)|2 * X
x + number|X + 1
sum(x)|sum(X)
mean(x)|mean<hidden>(X)
repeat<dim>(x, times)|repeat<hidden>(X, 2)
a + b|X + X
a - b|X - X
a * b|X * X
a / b|X / X
a + b|floats + X
a * b|X * floats
contract<dim...>(a, b)|contract<hidden>(X, X)
softmax<dim>(x)|softmax<hidden>(X)
rms_norm(x, weight)|rms_norm(X, row)
rms_norm(x, weight)|rms_norm(floats, Y)
layer_norm(x, weight, bias)|layer_norm(X, Y, Y)
swiglu(gate, up)|swiglu(X, X)
embedding(ids, table)|embedding(ids, Z)
cross_entropy(logits, targets)|cross_entropy(X, ids)
attention(q, k, v)|attention(H, H, H)
rope(x, table)|rope(H, table)
dropout(x, rate, stream)|dropout(X, 0.5, 1)
x.requires_grad()|leaf(X)
CALLS
header='#include <weft/weft.hpp>
using namespace weft;
template <class T>
using matrix_of = tensor<T, dims<batch, hidden>>;
template <class T>
using row_of = tensor<T, dims<hidden>>;
template <class T>
using table_of = tensor<T, dims<vocab, hidden>>;
template <class T>
using heads_of = tensor<T, dims<batch, seq, heads, head_dim>>;
template <class T>
T& made();
template <class X>
void leaf(X x) {
  x.requires_grad();
}
extern matrix_of<float> floats;
extern row_of<float> row;
extern tensor<std::int32_t, dims<batch>> ids;
extern rope_table table;
'
types=(std::int32_t std::int64_t std::uint8_t)
plain=(int long 'unsigned char')

write() { # FILE MAKER: MAKER is an expression with TYPE in it that a tensor of integers goes through
  printf '%s' "$header" >"$1"
  local type call n=0 made
  for type in "${types[@]}"; do
    while IFS='|' read -r _ call; do
      for made in X:matrix_of Y:row_of Z:table_of H:heads_of; do
        call=$(sed -E "s/\b${made%%:*}\b/$2(made<${made#*:}<$type>>())/g" <<<"$call")
      done
      echo "void call_$((n++))() { (void)($call); }"
    done <"$work/calls"
  done >>"$1"
}
write "$work/wrong.cpp" ''
write "$work/right.cpp" 'cast<float>'

calls=$(wc -l <"$work/calls")
for compiler in "${CXX:-g++}" $(command -v clang++ clang++-14 | head -n 1); do
  ask=(env LC_ALL=C "$compiler" -std=c++20 -fsyntax-only -I "${WEFT_SOURCE_DIR:-.}/include")
  name=g++
  "$compiler" --version | grep -q clang && name=clang++ && ask+=(-ferror-limit=0)
  [ ! -f "${WEFT_PRECOMPILED:-}/$name/all.hpp" ] || ask+=(-include "$WEFT_PRECOMPILED/$name/all.hpp")
  if "${ask[@]}" "$work/wrong.cpp" >"$work/said" 2>&1; then
    echo "$compiler takes integers everywhere"
    exit 1
  fi
  grep 'error:' "$work/said" >"$work/errors"
  if grep -v 'error: static.assert.*weft: ' "$work/errors"; then
    echo "$compiler says more than sentences of Weft's"
    exit 1
  fi
  if grep 'weft/backend/' "$work/said"; then
    echo "$compiler looks at kernels"
    exit 1
  fi
  # One for each type; a call that shares its operator's function with an earlier one says it there.
  while IFS='|' read -r name call; do
    said=$(grep -cF "weft: $name" "$work/errors" || true)
    if [ "$said" -lt ${#types[@]} ]; then
      echo "$compiler says \"weft: $name\" $said times, not for each of ${types[*]}: $call"
      exit 1
    fi
  done <"$work/calls"
  for type in "${plain[@]}"; do
    said=$(grep -cE "elements_of<(std::|u?)?(${type// /|})" "$work/said" || true)
    if [ "$said" -lt "$calls" ]; then
      echo "$compiler names the elements' type $type in $said of $calls refusals"
      exit 1
    fi
  done
  "${ask[@]}" -Wall -Wextra -Werror "$work/right.cpp"
done
