#!/usr/bin/env bash
# Whether the checks notice one small thing wrong in one kernel (runtime/mutant.hpp): a barrier or a wait for copies left out, or a
# guard, as `if (i < n)`. Of the kernels that a law launches all waits are tried, and every so manyth guard.
# Noticed is what makes the law fail, or the device find something, or the program run several times as many instructions as the right
# one. Where the law doesn't come to it, or the guard holds nobody back, it is idle. survivors.txt has the others, each with its reason; one that isn't there fails
# this test, as does one there that is noticed now.
# Everything with --all; else a sample of what a block of a model launches. WEFT_DEVICE_MUTANTS_OF=LAW tries that one's alone.
set -euo pipefail
tests=$WEFT_BINARY_DIR/tests
here=$WEFT_SOURCE_DIR/tests/device
program=${WEFT_DEVICE_PROGRAM:-$tests/test_backend_cuda}
if ! [ -e "$tests/device_runtime/libcudart.so.13" ]; then
  echo "skipped: there is no nvcc of CUDA 13 here, whose code would be changed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 found=0 wrong=0 endless=0 idle=0 survived=0 bad=0

device() { # LAW VARIABLE=VALUE...: runs it
  env "${@:2}" bash "$here/run.sh" "$tests/device_runtime" "$program" --abort-after=1 "--test-case=$1" </dev/null >"$work/log" 2>&1
}
say() {
  echo "$1: $law $mutant"
  grep -F "mutant: $mutant " "$work/all" | sed 's/^mutant: [^ ]* [^ ]* /    /'
  bad=1
}

# judge LAW TEST FILTER WAITS GUARDS: of the kernels that a test launches and FILTER matches every WAITSth wait, and every GUARDSth guard.
judge() {
  local law=$1 test=$2
  [[ "$law" == "${WEFT_DEVICE_MUTANTS_OF:-$law}" ]] || return 0
  device "$test" WEFT_DEVICE_MUTANTS=1 || { cat "$work/log"; exit 1; }
  cp "$work/log" "$work/all"
  # Four times what is right, and a little more.
  local most
  most=$(awk '/^device on the host: / { print 4 * $7 + 1000000 }' "$work/log")
  awk -v filter="$3" -v waits="$4" -v guards="$5" '
    /^mutant: / && $3 ~ filter { every = $2 == "wait" ? waits : guards; if (every && n[$2]++ % every == 0) print $2, $3 }' "$work/log" >"$work/chosen"
  while read -r mutant; do
    tried=$((tried + 1))
    local reason status=0
    reason=$(grep -F "$law $mutant " "$here/survivors.txt" || true)
    device "$test" WEFT_DEVICE_MUTANT="$mutant" WEFT_DEVICE_INSTRUCTIONS="$most" || status=$?
    if [ "$status" = 0 ] && grep -q '^idle: ' "$work/log"; then
      idle=$((idle + 1))
      continue
    fi
    if [ "$status" = 0 ]; then
      survived=$((survived + 1))
      [ -n "$reason" ] || say "nobody notices"
      continue
    fi
    [ -z "$reason" ] || say "it is noticed now, and is no survivor"
    if grep -q '^never ends: ' "$work/log"; then
      endless=$((endless + 1))
    elif grep -q '^found: ' "$work/log"; then
      found=$((found + 1))
    elif grep -q 'Status: FAILURE' "$work/log"; then
      wrong=$((wrong + 1))
    else
      say "it broke off, and nobody says why"
    fi
  done <"$work/chosen"
}

if [ "${WEFT_TEST_ALL:-}" = yes ]; then
  judge norms "laws of RMSNorm and LayerNorm<weft::bf16>" norm 1 8
  judge attention "laws of attention*several tiles*<weft::bf16>" attention_tensor 1 16
  judge heads "laws of attention on two blocks*<weft::bf16>" "attention_tensor.*Li256ELb0" 1 16
  program=$tests/test_backend_cuda_sm_90a judge warpgroups "attention by warpgroups*<weft::bf16>" attention_warpgroup 1 16
  program=$tests/test_backend_cuda_sm_90a judge backward "attention*s backward by warpgroups*<weft::bf16>" "attention_warpgroup.*backward" 1 16
  program=$tests/test_backend_cuda_sm_90a judge documents "documents end what attention by warpgroups*<weft::bf16>" attention_warpgroup 1 16
  program=$tests/test_backend_cuda_sm_90a judge borders "documents end what attention*s backward*<weft::bf16>" "attention_warpgroup.*backward" 1 16
  judge losses "laws of cross-entropy*<weft::bf16>" "row_|cross_entropy" 1 1
  judge reductions "laws of reductions<weft::bf16>" "reduce|sum_|squares|statistics|not_finite" 1 8
  judge embedding "laws of embedding*<weft::bf16>" "embedding_|row_keys" 1 3
fi
judge mlp "the MLP block*" "norm|sum_parts" 4 12
echo "$tried changed: $found found, $wrong wrong numbers, $endless without an end; $idle that hold nobody back; $survived that nobody notices"
[ "$((found + wrong + endless))" -gt 0 ] && exit $bad
