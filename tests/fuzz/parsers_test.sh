#!/usr/bin/env bash
# Files that were changed, given to each parser under AddressSanitizer and UndefinedBehaviorSanitizer: it refuses them by a sentence that
# names the file, or reads what its target checks (the .cpp of this folder). So many inputs for each, 10^6 where all is asked for, and
# then the targets are linked to libFuzzer too, where clang has it. INPUTS, FIRST and PARSERS ask for others.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
export WEFT_SOURCE_DIR=$here
export ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1
everything=${WEFT_TEST_ALL:-no}
[ "$everything" = yes ] && inputs=1000000 || inputs=2000
inputs=${INPUTS:-$inputs}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=$(command -v clang++ || command -v clang++-14 || echo "${CXX:-g++}")
flags=(-std=c++20 -O1 -g1 -pthread "-I$here/include" -fsanitize=address,undefined -fno-sanitize-recover=all -DWEFT_CHECK=0)
cd "$work"
read -r -a parsers <<<"${PARSERS:-safetensors weight_index config tokenizer tokens}"

# PROGRAM SOURCE... [-- FLAG...]: linked with the sanitizers, which check/program.sh doesn't do.
make() {
  local program=$1 objects=() sources=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do sources+=("$1") && shift; done
  [ $# = 0 ] || shift
  for source in "${sources[@]}"; do
    objects+=("$program.$source.o")
    ${WEFT_CCACHE:-} "$compiler" "${flags[@]}" "$@" -c "$here/tests/fuzz/$source.cpp" -o "$program.$source.o"
  done
  "$compiler" "${flags[@]}" "$@" "${objects[@]}" -o "$program" -lonig -lutf8proc
}

for parser in "${parsers[@]}"; do
  make "$parser" "$parser" driver
  begin=$SECONDS
  ./"$parser" "$inputs" "${FIRST:-0}" >said 2>errors || {
    tail -n 60 errors
    cp fuzz-fault "${KEEP:-/tmp}/fuzz-fault-$parser" 2>/dev/null && echo "the input is ${KEEP:-/tmp}/fuzz-fault-$parser"
    echo "FAULT: $parser: see above"
    exit 1
  }
  echo "$parser: $(cat said), $((SECONDS - begin)) s"
  read -r all _ refused _ read _ <said
  [ "$all" -ge "$inputs" ] && [ "$refused" -gt $((all / 20)) ] && [ "$read" -gt $((all / 100)) ] ||
    { echo "FAULT: of the inputs of $parser too many are refused, or read, to say anything"; exit 1; }
done
[ "$everything" = yes ] || exit 0
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >empty.cpp
"$compiler" -fsanitize=fuzzer empty.cpp -o empty 2>/dev/null || { echo "no libFuzzer here"; exit 0; }
for parser in "${parsers[@]}"; do
  make "$parser.libfuzzer" "$parser" mutator -- -fsanitize=fuzzer
  mkdir "$parser.corpus"
  ./"$parser" --write "$parser.corpus"
  ./"$parser.libfuzzer" -runs=20000 -seed=1 -verbosity=0 -artifact_prefix="${KEEP:-/tmp}/" "$parser.corpus" 2>errors ||
    { tail -n 60 errors; echo "FAULT: $parser under libFuzzer"; exit 1; }
done
