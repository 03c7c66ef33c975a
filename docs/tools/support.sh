#!/usr/bin/env bash
# support.sh: prints the parts of docs/support.md (see generate.sh). CXX has to be g++: its messages are read.
# Asks the compiler for every cell of support_matrix.cpp, and reads from the sources which kernels each operator calls and which
# of them each backend has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
include=include/weft
fail() { echo "support.sh: $*" >&2; exit 1; }

# ---- operators that the matrix forgets ----
# The public function templates of op/, but for what makes tensors and hands them over, which take no placements.
for header in $include/op/*.hpp; do
  case $header in */create.hpp | */send_receive.hpp) continue ;; esac
  awk '/^namespace detail/ { hidden = 1 } /^}  \/\/ namespace detail/ { hidden = 0 } !hidden' "$header" |
    sed -n 's/^\(auto\|X\) \([a-z0-9_]*\)(const [A-Z][a-z]*& .*/\2/p; s/^WEFT_DETAIL_UNARY(\([a-z0-9_]*\)).*/\1/p'
done | sort -u | grep -vx convert >"$work/operators"  # convert: the table of conversions
[ "$(wc -l <"$work/operators")" -ge 30 ] || fail "found too few operators in $include/op; has their form changed?"
while read -r name; do
  grep -q "[ (\"]$name[(<]" docs/tools/support_matrix.cpp || fail "the operator $name is not in docs/tools/support_matrix.cpp"
done <"$work/operators"

# ---- placements and backends ----
asked=("${CXX:-g++}" -std=c++20 -w -I include -I "$work" docs/tools/support_matrix.cpp)
# Every error follows the lines that say which cell it is in.
read_errors='
  match($0, /cell<ops::[a-z0-9_]+, [0-9]+, [0-9]+/) { cell = substr($0, RSTART + 5, RLENGTH - 5) }
  / error: / && cell == "" { print "an error outside of every cell: " $0 > "/dev/stderr"; exit 1 }'

LC_ALL=C "${asked[@]}" -DWEFT_ASK -fsyntax-only >"$work/said" 2>&1 && fail "the compiler refuses nothing"
awk "$read_errors"'
  / error: static assertion failed: weft: / && !(cell in said) {
    sentence = $0; sub(/.* error: static assertion failed: weft: /, "", sentence); gsub(/"/, "\\\"", sentence)
    printf "template <> constexpr const char* why<%s> = \"%s\";\n", cell, sentence
    said[cell] = 1
  }
  / error: / && !(cell in said) { print "no sentence, in " cell ": " $0 > "/dev/stderr"; exit 1 }' "$work/said" >"$work/refused.inc"

# Kernels that the CPU has and the other backend's source doesn't name: called, they say so, and the compiler goes on to the backward.
sed -n '/\\$/d; s/^ *WEFT_DETAIL_KERNEL(\([a-z0-9_]*\)).*/\1/p; s/^  static [a-zA-Z_:]* \([a-z0-9_]*\)(queue&.*/\1/p' $include/backend/cpu.hpp $include/backend/kernel_names.inl | sort -u >"$work/cpu"
for words in $include/backend/cuda/words/*.hpp; do
  sed -n '/^ private:/q; s/^  static [a-zA-Z_:]* \([a-z0-9_]*\)(queue&.*/\1/p' "$words"
done | sort -u >"$work/cuda"
[ "$(wc -l <"$work/cpu")" -ge 20 ] && [ "$(wc -l <"$work/cuda")" -ge 25 ] || fail "found too few kernels; has their form changed?"
{
  comm -23 "$work/cpu" "$work/cuda" | while read -r kernel; do
    missing="static_assert(sizeof...(A) < 0, \"no kernel $kernel\");"
    echo "template <class... A> static void $kernel(A&&...) { $missing }"
    echo "template <auto, class... A> static void $kernel(A&&...) { $missing }"
  done
} >"$work/stubs.inc"
LC_ALL=C "${asked[@]}" -DWEFT_ASK_DEVICE -fsyntax-only >"$work/said" 2>&1 || true
awk "$read_errors"'
  / error: static assertion failed: no kernel / {
    op = cell; sub(/^ops::/, "", op); sub(/,.*/, "", op); kernel = $0; sub(/.* no kernel /, "", kernel)
    print "{\"" op "\", \"" kernel "\"},"
    next
  }
  / error: / { print "not a missing kernel, in " cell ": " $0 > "/dev/stderr"; exit 1 }' "$work/said" | sort -u >"$work/missing.inc"

bash tests/check/program.sh "$work/matrix" quick -w -I include -I "$work" docs/tools/support_matrix.cpp
"$work/matrix"

# ---- kernels ----
echo "== kernels"
echo "| kernel | \`cpu_backend\` | \`cuda_backend\` | called in |"
echo "|---|---|---|---|"
# Those that give a bool may be lacking: an operator then calls others.
sed -n 's/^  static bool \([a-z0-9_]*\)(queue&.*/\1/p' $include/backend/cuda/words/*.hpp | sort -u | comm -12 - "$work/cuda" >"$work/optional"
sort -u "$work/cpu" "$work/optional" >"$work/kernels"
while read -r kernel; do
  has=no on_cpu=no
  grep -qx "$kernel" "$work/cuda" && has=yes
  grep -qx "$kernel" "$work/cpu" && on_cpu=yes
  callers=$(grep -lE "Backend::(template )?$kernel[(<]|backend::$kernel[(<]" $include/{op,autograd,optim,parallel,nn,train,io}/*.hpp | sort |
    sed 's|^include/weft/\(.*\)|`\1`|' | paste -sd, | sed 's/,/, /g') || true
  echo "| \`$kernel\` | $on_cpu | $has | ${callers:--} |"
done <"$work/kernels"
if comm -13 "$work/kernels" "$work/cuda" | grep .; then fail "the CPU lacks these kernels of cuda_backend"; fi
