#!/usr/bin/env bash
# train_llama's command line: each wrong one gets one sentence on stderr and a non-zero exit; a small run leaves its files.
set -uo pipefail
program="$WEFT_BINARY_DIR/examples/train_llama"
if [ ! -x "$program" ]; then
  echo "examples/train_llama is not built (CLI11 is missing, or WEFT_BUILD_EXAMPLES is off)"
  exit 77
fi
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
faults=0
fault() { echo "FAULT: $*"; faults=$((faults + 1)); }

# refused STATUS PHRASE OPTIONS...
refused() {
  local status=$1 phrase=$2 code
  shift 2
  timeout 20 "$program" "$@" >out 2>err  # what should be refused and is not would train for minutes
  code=$?
  [ "$code" = "$status" ] || fault "$* exits with $code, not $status"
  [ "$(wc -l <err)" = 1 ] || fault "$* says more or less than one line: $(cat err)"
  grep -qF -- "$phrase" err || fault "$* does not say '$phrase' but: $(cat err)"
  [ ! -s out ] || fault "$* writes to stdout: $(head -n 3 out)"
}

seq 1 3000 >text
: >empty
printf 'short' >short
refused 1 'missing can'"'"'t be read: No such file' --data missing
refused 1 'empty is empty' --data empty
refused 1 'short has 5 bytes to train on, fewer than a sequence' --data short
refused 1 'Is a directory' --data .
refused 1 'give one with --data FILE'
refused 1 'takes 4 ranks, not 3' --data text --ranks 3
refused 1 'each is at least 1' --data text --dp 0
refused 1 "4 layers don't fill pp = 5 pipeline stages" --data text --pp 5 --dp 1 --tp 1
refused 1 "5 heads don't divide" --data text --heads 5
refused 1 "don't divide among tp = 4 ranks" --data text --tp 4 --kv-heads 2
refused 1 "a batch of 6 sequences doesn't divide into 2 micro-batches on dp = 2 ranks; choose a multiple of 4" --data text --batch 6 --micro-batches 2
refused 1 "no strategy called 'zero3-bf61'; there are, the nearest first: zero3-bf16," --data text --strategy zero3-bf61
refused 1 "no sharding policy called 'zero4'; there are, the nearest first: zero1, zero2, zero3, replicated" --data text --sharding zero4
refused 1 "no precision policy called 'bf61'; there are, the nearest first: bf16, fp32" --data text --precision bf61
refused 1 '--temperature, is -1' --data text --temperature -1
refused 1 'at least 1 step' --data text --steps 0
refused 1 "can't be made" --data text --out text/below
refused 1 "no answer to NaN called 'zeros'; there are, the nearest first: zero, stop, skip" --data text --on-non-finite zeros
refused 1 'every -1 steps' --data text --watch-every -1
refused 1 'the learning rate, --lr, is inf' --data text --lr inf
refused 1 '--lr, is nan' --data text --lr nan
refused 1 '--weight-decay, is -1' --data text --weight-decay -1
refused 1 '--clip, is inf' --data text --clip inf
refused 1 '--layers, is 2147483648; it is from 1 to 65536' --data text --layers 2147483648
refused 1 '--hidden, is 0; it is from 1 to' --data text --hidden 0
refused 1 "--strategy zero3-bf16 is sharding zero3, and --sharding is zero1; leave one of them out" --data text --strategy zero3-bf16 --sharding zero1
refused 1 '--strategy replicated-fp32 is precision fp32, and --precision is bf16' --data text --strategy replicated-fp32 --precision bf16
refused 1 '--strategy zero3-bf16-full is checkpointing full, and --checkpointing is none' --data text --strategy zero3-bf16-full --checkpointing none
refused 1 '--strategy zero3-bf16 leaves the sequence whole, and --sequence-parallel is given' --data text --strategy zero3-bf16 --sequence-parallel
refused 2 '--weight-decay is empty; give it a value' --data text --weight-decay ''
refused 2 '--weight-decay' --data text --weight-decay=
refused 2 '--data is empty; give it a value' --data ''
refused 2 '--seed' --data text --seed -1
refused 2 '--help lists the options' --data text --stepz 3
refused 2 '--help lists the options' --data text --steps many

"$program" --help >out 2>err || fault '--help fails'
for option in strategy dp tp pp ranks steps lr data seed print-config watch-every on-non-finite temperature top-k top-p repetition-penalty; do
  grep -qF -- "--$option" out || fault "--help does not show --$option"
done

"$program" --strategy replicated-fp32-full-sp --precision fp32 --steps 7 --print-config >out 2>err || fault '--print-config fails'
grep -qF '"strategy":"replicated-fp32-full-sp"' out || fault "the strategy is not what was asked for: $(head -n 3 out)"
grep -qF '"steps":7' out || fault '--print-config does not print the steps'
[ "$(head -c 1 out)" = '{' ] && [ "$(tail -n 1 out)" = '}' ] || fault '--print-config does not print an object'

if [ -e /dev/full ]; then
  "$program" --print-config >/dev/full 2>err && fault '--print-config > /dev/full ends with 0'
  grep -qF "can't be written: No space left on device" err || fault "--print-config > /dev/full says: $(cat err)"
fi

small=(--data text --steps 3 --layers 2 --hidden 32 --heads 4 --seq 32 --batch 4 --sample-tokens 5 --out deep/run)
for strategy in zero3-bf16 replicated-fp32-full-sp zero1-bf16-selective; do
  "$program" "${small[@]}" --strategy "$strategy" --watch-every 2 --on-non-finite zero >out 2>err || fault "$strategy fails: $(cat err)"
  [ ! -s err ] || fault "$strategy writes to stderr: $(cat err)"
  [ "$(grep -c '^step [123]/3  loss ' out)" = 3 ] || fault "$strategy does not print three steps"
  grep -q 'unigram entropy' out || fault "$strategy does not compare with the unigram entropy"
  ! grep -q $'\r' out || fault "$strategy draws a bar into a file"
done
for run in deep/run deep/run-2 deep/run-3; do
  for file in config.json metrics.jsonl monitor.jsonl memory.json trace.json sample.txt; do
    [ -s "$run/$file" ] || fault "$run/$file is missing or empty"
  done
done
grep -qF '"strategy":"zero3-bf16"' deep/run/config.json || fault 'the second run wrote over the first'
[ "$(grep -c '"loss":' deep/run/metrics.jsonl)" = 3 ] || fault 'metrics.jsonl does not have a line a step'
[ "$(grep -c '^{"step":2,"unit":"' deep/run/monitor.jsonl)" = 4 ] || fault 'monitor.jsonl does not have a line a unit'

# A pipeline prints the losses of one rank.
losses() { sed -n 's/^step \([0-9]\).*loss \([0-9.]*\).*/\1 \2/p'; }
for degrees in '--dp 1 --tp 1 --pp 1' '--dp 1 --tp 1 --pp 2' '--dp 1 --tp 2 --pp 2'; do
  # shellcheck disable=SC2086 # three options
  "$program" "${small[@]}" --strategy zero1-fp32 --micro-batches 2 $degrees 2>err | losses >"losses $degrees" || fault "$degrees fails: $(cat err)"
  [ "$(wc -l <"losses $degrees")" = 3 ] || fault "$degrees does not print three losses"
  cmp -s 'losses --dp 1 --tp 1 --pp 1' "losses $degrees" || fault "$degrees has other losses: $(cat "losses $degrees")"
done

echo "$faults faults"
[ "$faults" = 0 ]
