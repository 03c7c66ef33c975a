#!/usr/bin/env bash
# train_llama's command line: each wrong one gets one sentence on stderr and a non-zero exit; a small run leaves its files.
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" train_llama

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
refused 1 'a checkpoint every -1 steps, --save-every' --data text --save-every -1
refused 1 'the newest 0 checkpoints are kept, --keep' --data text --keep 0
refused 1 'the file missing/config.json can'"'"'t be read' --data text --resume missing
refused 1 '--config and --resume both give settings' --data text --resume missing --config other
refused 1 "can't be made" --data text --out text/below
refused 1 'the run folder text can'"'"'t be made: there is a file of this name' --data text --out text
[ ! -c /dev/zero ] || refused 1 'the corpus /dev/zero is a device' --data /dev/zero
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
refused 2 '--weight-decay: it is empty; give it a value' --data text --weight-decay ''
refused 2 '--weight-decay' --data text --weight-decay=
refused 2 '--data: it is empty; give it a value' --data ''
refused 2 '--seed' --data text --seed -1
refused 2 'has more than 64 bits' --data text --steps 99999999999999999999
refused 2 'has more than 64 bits' --data text --seed 18446744073709551616
refused 2 '--data: it is empty; give it a value' --data= --steps 1
refused 2 '--steps is given 2 times; leave it at one' --data text --steps 5 --steps 6
refused 2 '--steps: it is abc, which is no whole number' --data text --steps abc
refused 2 '--dp: it is 1.5, which is no whole number' --data text --dp 1.5
refused 2 '--lr: it is x, which is no number' --data text --lr x
refused 1 'a rank works on 100000 cores, --threads; it is from 1 to 1024' --data text --threads 100000
refused 1 'a step has at least 1 sequence, --batch, not 0' --data text --batch 0
refused 1 'the file /dev/zero has more than the' --data text --config /dev/zero
refused 2 "no option called '--stepss'; there are, the nearest first: --steps," --data text --stepss 1
refused 2 "no option called '--stepz'" --data text --stepz=3
refused 1 "no strategy called 'foo'; there are, the nearest first: " --data text --strategy foo
[ "$(wc -c <err)" -lt 300 ] || fault "--strategy foo prints $(wc -c <err) characters"
refused 1 '5 heads don'"'"'t divide' --data text --heads 5 --kv-heads 2 --hidden 60
refused 2 '--help lists the options' --data text --steps many

"$program" --help >out 2>err || fault '--help fails'
for option in save-every keep keep-every resume strategy dp tp pp ranks steps lr data seed print-config watch-every on-non-finite temperature top-k top-p repetition-penalty config log-every version plan plan-json; do
  grep -qF -- "--$option" out || fault "--help does not show --$option"
done

"$program" --strategy replicated-fp32-full-sp --precision fp32 --steps 7 --print-config >out 2>err || fault '--print-config fails'
grep -qF '"strategy":"replicated-fp32-full-sp"' out || fault "the strategy is not what was asked for: $(head -n 3 out)"
grep -qF '"steps":7' out || fault '--print-config does not print the steps'
[ "$(head -c 1 out)" = '{' ] && [ "$(tail -n 1 out)" = '}' ] || fault '--print-config does not print an object'

# Settings that were printed are read back, to the last digit; options override them.
odd=(--strategy zero1-fp32-full-sp --dp 1 --tp 2 --layers 3 --hidden 64 --heads 8 --lr 0.012345678901234567 --seed 18446744073709551615
  --steps 3000000000 --prompt $'a "quoted"\n\\ line' --log-every 7 --data text --out deep/run --tied --on-non-finite skip --held-out 0.125)
"$program" "${odd[@]}" --print-config >first.json 2>err || fault "--print-config fails: $(cat err)"
"$program" --config first.json --print-config >second.json 2>err || fault "--config fails: $(cat err)"
cmp -s first.json second.json || fault "--config doesn't take back what --print-config prints: $(diff first.json second.json)"
for key in '"lr":0.012345678901234567' '"seed":18446744073709551615' '"steps":3000000000' '"tied":true' '"log_every":7'; do
  grep -qF "$key" second.json || fault "$key is not in $(cat second.json)"
done
"$program" --steps 5 --config first.json --dp 2 --strategy zero3-bf16 --tied=false --print-config >third.json 2>err || fault "options beside --config fail: $(cat err)"
for key in '"strategy":"zero3-bf16"' '"steps":5' '"dp":2' '"ranks":4' '"tied":false' '"lr":0.012345678901234567' '"sharding":"zero3"'; do
  grep -qF "$key" third.json || fault "an option doesn't override --config: $key is not in $(cat third.json)"
done
"$program" --config first.json --sharding zero2 --print-config >third.json 2>err || fault "a part of the strategy beside --config fails: $(cat err)"
grep -qF '"strategy":"zero2-fp32-full-sp"' third.json || fault "--sharding beside --config: $(head -n 3 third.json)"

# wrong_config PHRASE JSON
wrong_config() {
  printf '%s' "$2" >wrong.json
  refused 1 "the file wrong.json$1" --data text --config wrong.json
}
wrong_config ': steps is "many"; it takes a whole number' '{"steps": "many"}'
wrong_config ': steps is 1.5; it takes a whole number' '{"steps": 1.5}'
wrong_config ': dp is 4294967296; it is from -2147483648 to 2147483647' '{"dp": 4294967296}'
wrong_config ': seed is -1; it is from 0 to' '{"seed": -1}'
wrong_config ': lr is "0.1"; it takes a number' '{"lr": "0.1"}'
wrong_config ': tied is 1; it takes true or false' '{"tied": 1}'
wrong_config ': data is null; it takes a text in quotes' '{"data": null}'
wrong_config ' names "steps" twice in one object' '{"steps": 1, "lr": 1e-3, "steps": 2}'
wrong_config " isn't JSON from its byte 12 on, of 11" '{"steps": 1'
wrong_config ' is no JSON object' '[1]'
wrong_config ': strategy zero3-bf16 is sharding zero3, and sharding is zero1; leave one of them out' '{"strategy": "zero3-bf16", "sharding": "zero1"}'
wrong_config ': strategy zero3-bf16-sp shards the sequence, and sequence_parallel is false' '{"strategy": "zero3-bf16-sp", "sequence_parallel": false}'
printf '{"stepz": 3}' >wrong.json
refused 1 "no setting in the file wrong.json called 'stepz'; there are, the nearest first: steps," --data text --config wrong.json
printf '{"steps": 0}' >wrong.json
refused 1 'at least 1 step' --data text --config wrong.json
refused 1 "absent.json can't be read: No such file" --data text --config absent.json
# The text that a file names comes before the one that is taken where none is named, and after --data.
echo '{"data": "named"}' >named.json
export TRAIN_LLAMA_DATA=unnamed
refused 1 "unnamed can't be read"
refused 1 "named can't be read" --config named.json
grep -q unnamed err && fault "--config's text is passed over"
refused 1 "missing can't be read" --config named.json --data missing
unset TRAIN_LLAMA_DATA
refused 2 '--config: it is empty' --data text --config ''
refused 1 'a line every 0 steps, --log-every,' --data text --log-every 0
printf '{"dp": 1, "tp": 1, "steps": 2, "derived": {"ranks": 77}}' >part.json
"$program" --config part.json --print-config >out 2>err || fault "a part of the settings: $(cat err)"
grep -qF '"ranks":1' out || fault "derived settings are read: $(cat out)"

"$program" --version >out 2>err || fault "--version fails: $(cat err)"
[ "$(cat out)" = "train_llama of Weft $version" ] || fault "--version says: $(cat out)"

if [ -e /dev/full ]; then
  "$program" --print-config >/dev/full 2>err && fault '--print-config > /dev/full ends with 0'
  grep -qF "can't be written: No space left on device" err || fault "--print-config > /dev/full says: $(cat err)"
fi
"$program" --layers 1 --hidden 30 --heads 4 --kv-heads 4 --head-dim 8 --print-config >out 2>err || fault "--head-dim fails: $(cat err)"
grep -qF '"head_dim":8' out || fault '--print-config does not print head_dim'

small=(--data text --steps 3 --layers 2 --hidden 32 --heads 4 --seq 32 --batch 4 --sample-tokens 5 --out deep/run)
for strategy in zero3-bf16 replicated-fp32-full-sp zero1-bf16-selective; do
  "$program" "${small[@]}" --strategy "$strategy" --watch-every 2 --on-non-finite zero >out 2>err || fault "$strategy fails: $(cat err)"
  [ ! -s err ] || fault "$strategy writes to stderr: $(cat err)"
  [ "$(grep -c '^step [123]/3  loss ' out)" = 3 ] || fault "$strategy does not print three steps"
  grep -q 'unigram entropy' out || fault "$strategy does not compare with the unigram entropy"
  ! grep -q $'\r' out || fault "$strategy draws a bar into a file"
done
for run in deep/run deep/run-2 deep/run-3; do
  for file in config.json metrics.jsonl monitor.jsonl memory.json trace.json sample.txt result.json checkpoints/step-00000003/manifest.json; do
    [ -s "$run/$file" ] || fault "$run/$file is missing or empty"
  done
done
grep -qF '"strategy":"zero3-bf16"' deep/run/config.json || fault 'the second run wrote over the first'
[ "$(grep -c '"loss":' deep/run/metrics.jsonl)" = 3 ] || fault 'metrics.jsonl does not have a line a step'
[ "$(grep -c '^{"step":2,"unit":"' deep/run/monitor.jsonl)" = 4 ] || fault 'monitor.jsonl does not have a line a unit'

# A plan needs no text, and says what the run then holds.
planned=(--steps 3 --layers 2 --hidden 32 --heads 4 --seq 32 --batch 4 --sample-tokens 0)
first_peak() { grep -o '"peak":[0-9]*' "$1" | head -n 1; }
for strategy in zero3-bf16 replicated-fp32-full-sp zero1-bf16-selective; do
  "$program" "${planned[@]}" --strategy "$strategy" --plan-json >plan.json 2>err || fault "--plan-json fails: $(cat err)"
  "$program" --data text "${planned[@]}" --strategy "$strategy" --out "planned-$strategy" >out 2>err || fault "$strategy fails: $(cat err)"
  [ -n "$(first_peak plan.json)" ] && [ "$(first_peak plan.json)" = "$(first_peak "planned-$strategy/memory.json")" ] ||
    fault "$strategy: the plan says $(first_peak plan.json), and the run $(first_peak "planned-$strategy/memory.json")"
done
"$program" --plan --hidden 8192 --layers 80 --heads 64 --kv-heads 8 --ffn 28672 --seq 8192 --dp 64 --tp 8 --pp 8 --batch 1024 --micro-batches 16 \
  --checkpointing full >out 2>err || fault "--plan of 4096 ranks fails: $(cat err)"
[ "$(grep -c '^rank [0-9]* of 4096 .* GiB at most' out)" = 8 ] || fault "--plan of 4096 ranks says: $(head -n 3 out)"
refused 1 'each is at least 1' --plan --dp 0

one=(--data text --layers 1 --hidden 32 --heads 4 --seq 16 --batch 4 --dp 1 --tp 1 --threads 1 --strategy zero1-fp32)
"$program" "${one[@]}" --sample-tokens 5 --steps 10 --log-every 4 --out sparse >out 2>err || fault "--log-every fails: $(cat err)"
[ "$(sed -n 's/^step *\([0-9]*\)\/.*/\1/p' out | tr '\n' ' ')" = '1 4 8 10 ' ] || fault "--log-every 4 prints: $(grep ^step out)"
[ "$(grep -c '"loss":' sparse/metrics.jsonl)" = 10 ] || fault '--log-every thins metrics.jsonl'

# An output that nobody takes costs the run nothing, and is told.
lost_output() { # HOW FOLDER, the exit code before
  [ "$code" = 1 ] || fault "$1 ends with $code: $(cat err)"
  [ "$(wc -l <err)" = 1 ] && grep -q "stdout did not take all that was printed" err || fault "$1: $(cat err)"
  for file in config.json metrics.jsonl result.json sample.txt; do [ -s "$2/$file" ] || fault "$1: $2/$file is missing or empty"; done
  ! grep -qs -d skip nats "$2"/* || fault "$1: a file of the run has what was to be printed"
}
if [ -e /dev/full ]; then
  "$program" "${one[@]}" --sample-tokens 5 --steps 2 --out no_room >/dev/full 2>err
  code=$?
  lost_output 'stdout on a full disk' no_room
fi
"$program" "${one[@]}" --sample-tokens 5 --steps 2 --out closed >&- 2>err
code=$?
lost_output 'a closed stdout' closed
mkfifo pipe
exec 4<>pipe 5>pipe 4<&-  # a pipe that nobody reads
"$program" "${one[@]}" --sample-tokens 5 --steps 2 --out gone >&5 2>err
code=$?
exec 5>&-
lost_output 'a reader that goes away' gone

# begun FOLDER STEPS OPTIONS...: starts a run there, in the background, and waits for its first steps.
begun() {
  local folder=$1 steps=$2
  shift 2
  # A script's shell has what it starts in the background ignore SIGINT, and the program respects that.
  env --default-signal=INT,HUP "$program" "${one[@]}" --sample-tokens "${sample:-5}" --steps "$steps" --out "$folder" "$@" >out 2>err &
  running=$!
  for _ in $(seq 6000); do
    [ "$(cat "$folder/metrics.jsonl" 2>/dev/null | wc -l)" -ge 6 ] && return
    sleep 0.05
  done
  fault "a run doesn't begin: $(cat err)"
}
# What a signal ends is written as a whole run's.
for signal in INT TERM HUP; do
  begun "by-$signal" 1000000 --log-every 1000000
  kill -$signal $running
  wait $running
  code=$?
  [ $code = 130 ] || fault "SIG$signal ends with $code: $(cat err)"
  [ "$(wc -l <err)" = 1 ] && grep -qE "ended the run after step [0-9]+ of 1000000; it goes on with --resume by-$signal" err || fault "SIG$signal: $(cat err)"
  for file in config.json metrics.jsonl memory.json trace.json result.json; do
    [ -s "by-$signal/$file" ] || fault "after SIG$signal by-$signal/$file is missing or empty"
  done
  steps=$(grep -c '"loss":' "by-$signal/metrics.jsonl")
  grep -q "after step $steps of" err || fault "SIG$signal ends after another step than metrics.jsonl's last, $steps: $(cat err)"
  grep -q "^step *$steps/" out || fault "SIG$signal: the last step has no line: $(cat out)"
  grep -q 'would reach' out || fault "SIG$signal leaves the report out: $(cat out)"
  grep -qF '"ended":"it was asked to stop"' "by-$signal/result.json" || fault "result.json says: $(cat "by-$signal/result.json")"
  saved=$(printf 'by-%s/checkpoints/step-%08d/manifest.json' "$signal" "$steps")
  [ -s "$saved" ] || fault "SIG$signal leaves no $saved but: $(ls "by-$signal/checkpoints")"
  "$program" --resume "by-$signal" --steps $((steps + 2)) --out "after-$signal" >out 2>err || fault "--resume fails: $(cat err)"
  [ "$(sed -n 's/^step *\([0-9]*\)\/.*/\1/p' out | tail -n 1)" = $((steps + 2)) ] || fault "--resume prints: $(cat out)"
  [ "$(grep -c '"loss":' "after-$signal/metrics.jsonl")" = 2 ] || fault '--resume does more steps than are left'
done

# A second one ends the program at once: here while it writes the checkpoint that the first asked for, by a signal that it sends itself when it
# takes that file's space. What is half written isn't counted, and the run goes on from the checkpoint before.
cat >second.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
int posix_fallocate(int file, off_t begin, off_t size) {
  struct sigaction is;
  if (sigaction(SIGTERM, NULL, &is) == 0 && is.sa_handler == SIG_DFL) raise(SIGTERM); /* a first one was taken */
  return ((int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate"))(file, begin, size);
}
END
if ! ldd "$program" | grep -qE 'lib[at]san' && "${CC:-gcc}" -shared -fPIC second.c -o second.so -ldl; then
  LD_PRELOAD=$here/second.so begun twice 1000000 --save-every 2 --keep 1000000
  kill -TERM $running
  wait $running
  code=$?
  [ $code = 143 ] || fault "a second SIGTERM ends it with $code: $(cat err)"
  [ ! -s err ] && ! grep -q 'would reach' out && [ ! -e twice/result.json ] || fault "a second SIGTERM lets it report: $(cat out err)"
  [ "$(ls -d twice/checkpoints/*.unfinished | wc -l)" = 1 ] && [ ! -e twice/checkpoints/*.unfinished/manifest.json ] ||
    fault "a second SIGTERM leaves $(ls twice/checkpoints/*)"
  last=$(ls twice/checkpoints | grep -v unfinished | tail -n 1)
  last=$((10#${last#step-}))
  "$program" --resume twice --steps $((last + 1)) --out after-twice >out 2>err || fault "after a second SIGTERM --resume fails: $(cat err)"
  grep -q "^step *$((last + 1))/" out || fault "after a second SIGTERM --resume prints: $(cat out)"
fi

# One while the sample is made ends that.
begun_sampling() { # FOLDER: starts a run there and waits until it makes its sample, which never ends
  sample=1000000000 begun "$1" 6
  for _ in $(seq 6000); do [ -s "$1/result.json" ] && break; sleep 0.05; done
}
begun_sampling sampling
kill -INT $running
wait $running
code=$?
[ $code = 130 ] || fault "SIGINT while sampling ends with $code: $(cat err)"
[ "$(wc -l <err)" = 1 ] && grep -qF 'Ctrl-C came after the last step; sampling holds the whole run' err || fault "SIGINT while sampling: $(cat err)"
[ -s sampling/sample.txt ] && [ -s sampling/trace.json ] && [ -s sampling/memory.json ] || fault "SIGINT while sampling leaves: $(ls sampling)"

# A run that goes on has the losses of the unbroken one, under the same strategy to the bit.
"$program" "${one[@]}" --sample-tokens 5 --steps 6 --save-every 2 --keep-every 2 --out whole >out 2>err || fault "--save-every fails: $(cat err)"
[ "$(ls whole/checkpoints | tr '\n' ' ')" = 'step-00000002 step-00000004 step-00000006 ' ] || fault "saved: $(ls whole/checkpoints)"
"$program" --resume whole --out none-left >out 2>err && fault '--resume with no step left ends well'
grep -qF 'the run goes on after step 6 of 6, so there is no step left; ask for more steps' err || fault "no step left: $(cat err)"
rm -r whole/checkpoints/step-00000006
"$program" --resume whole --out again >out 2>err || fault "--resume fails: $(cat err)"
losses_from_5() { sed -n 's/^{"step":\([56],"loss":[^,]*\).*/\1/p' "$1/metrics.jsonl"; }
[ "$(losses_from_5 whole)" = "$(losses_from_5 again)" ] && [ "$(losses_from_5 again | wc -l)" = 2 ] ||
  fault "losses $(losses_from_5 again) after --resume, and $(losses_from_5 whole) without"
"$program" --resume whole --dp 2 --strategy zero3-bf16 --out other >out 2>err || fault "--resume under another strategy fails: $(cat err)"
"$program" "${one[@]}" --sample-tokens 5 --steps 2 --save-every 0 --out unsaved >out 2>err || fault "--save-every 0 fails: $(cat err)"
[ ! -e unsaved/checkpoints ] || fault '--save-every 0 saves'
refused 1 'unsaved/checkpoints holds no whole checkpoint' --resume unsaved

# A disk that is full at the end costs those files, not the report or the sample, and the exit code says so.
if [ -e /dev/full ]; then
  begun full 1000000
  kill -STOP $running
  ln -s /dev/full full/memory.json
  ln -s /dev/full full/trace.json
  kill -CONT $running
  kill -TERM $running
  wait $running
  code=$?
  [ $code = 1 ] || fault "a full disk ends with $code: $(cat err)"
  grep -q "full/memory.json can't be written: No space left on device" err || fault "a full disk: $(cat err)"
  grep -q "2 of the run's files could not be written" err || fault "a full disk: $(cat err)"
  grep -q 'would reach' out || fault "a full disk costs the report: $(cat out)"
  begun_sampling full-sample
  ln -s /dev/full full-sample/sample.txt
  kill -INT $running
  wait $running
  code=$?
  [ $code = 1 ] || fault "a sample that the disk doesn't take ends with $code: $(cat err)"
  grep -q -- '-- a sample' out || fault "a full disk costs the sample: $(cat out)"
  [ -s full-sample/trace.json ] || fault 'a full disk costs the trace'
fi

# A failed run leaves its reason in its folder.
"$program" "${one[@]}" --sample-tokens 5 --steps 5 --lr 1e30 --clip 0 --out failed >out 2>err && fault 'a loss that is no number ends well'
[ "$(sed 's/^train_llama: //' err)" = "$(cat failed/error.txt)" ] || fault "error.txt says $(cat failed/error.txt), stderr $(cat err)"
[ ! -e deep/run/error.txt ] || fault 'a run that ended well leaves an error.txt'

# A bar on terminals that can redraw, within their width; no escape elsewhere.
if command -v script >/dev/null; then
  # on_terminal TERM COLUMNS: what a run writes to such a terminal, in `typed`
  on_terminal() { TERM=$1 script -qec "stty cols $2; $program ${one[*]} --steps 4 --out terminal" /dev/null >typed 2>&1; }
  on_terminal xterm 80
  grep -q $'\e\\[K' typed || fault 'no bar on a terminal'
  on_terminal xterm 40
  longest=$(tr '\r' '\n' <typed | sed 's/\x1b\[K//g' | grep '^\[[=> ]*\]' | awk '{ if (length > most) most = length } END { print most + 0 }')
  [ "$longest" -gt 20 ] && [ "$longest" -lt 40 ] || fault "the bar takes $longest of 40 columns"
  for term in dumb ''; do
    on_terminal "$term" 80
    grep -q '^step 4/4' typed || fault "TERM=$term: no steps: $(cat typed)"
    ! grep -q $'\e' typed || fault "escapes under TERM=$term"
    ! grep -q '\[=' typed || fault "a bar under TERM=$term"
  done
fi

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
