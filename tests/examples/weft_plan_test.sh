#!/usr/bin/env bash
# weft-plan: its numbers are plan_training's and plan_generation's own, a limit is judged to the byte, what doesn't fit is told what
# would, each wrong command line gets one sentence, folders of every family are read, and docs/plan.md shows what it prints. Scratch of
# kernels, which depends on the machine, is left out.
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" weft-plan
source="$WEFT_SOURCE_DIR/tests"
# answers STATUS OPTIONS...: it ends so, and says nothing on stderr.
answers() {
  local status=$1 code
  shift
  timeout 120 "$program" "$@" >out 2>err
  code=$?
  [ "$code" = "$status" ] || fault "$* exits with $code, not $status: $(cat err)"
  [ ! -s err ] || fault "$* writes to stderr: $(cat err)"
}

mkdir small gpt2
cat >small/config.json <<'JSON'
{"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
 "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 64, "tie_word_embeddings": true}
JSON
cat >gpt2/config.json <<'JSON'
{"model_type": "gpt2", "n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 64, "vocab_size": 512}
JSON

# The numbers, of all that four ranks leave open.
without_scratch() { sed 's/"scratch":[0-9]*,//g' "$1"; }
bash "$source/check/program.sh" numbers quick -I "$WEFT_SOURCE_DIR/include" "$source/examples/weft_plan/numbers.cpp" >log 2>&1 || { cat log; exit 1; }
./numbers small gpt2 >lines || fault "numbers: $(cat lines)"
[ "$(wc -l <lines)" = 13 ] || fault "numbers printed $(wc -l <lines) lines"
for folder in small gpt2; do
  answers 0 $folder --ranks 4 --seq 32 --prompt 24 --tokens 8 --loss whole,chunked --json
  without_scratch out >$folder.json
  grep -o '"task".*"pp":[0-9]*,' $folder.json | sort | uniq -d >twice
  [ ! -s twice ] || fault "$folder: planned twice: $(head -n 2 twice)"
done
while IFS=$'\t' read -r strategy stages; do
  folder=small
  case $strategy in *sequence_parallel\>* | *'sequence_parallel, chunked_loss<8>>'* | *'replicated, bf16_mixed, int8<>'*) folder=gpt2 ;; esac
  grep -F -- "$strategy," $folder.json >found || fault "$folder: $strategy is not in its JSON"
  grep -qF -- "\"stages\":[$stages]}" found || fault "$folder: $strategy is planned otherwise: $(cut -c1-600 found) and not $stages"
done < <(without_scratch lines)

answers 0 small --ranks 4 --sharding zero1
grep -qF 'no strategy of it is among those asked for' out || fault "what zero1 leaves out isn't said: $(cat out)"

# A limit, to the byte; where nothing fits, what is advised does.
one=("$source/examples/weft_plan/llama3-8b" --train all --sharding zero3 --checkpointing full)
takes() { sed -n 's/.*"takes":\([0-9]*\),"holds".*/\1/p' out | head -n 1; }
answers 0 "${one[@]}" --dp 4 --json
limit=$(takes)
[ "${limit:-0}" -gt 30000000000 ] || fault "zero3 on four ranks takes $limit bytes"
answers 0 "${one[@]}" --dp 4 --json --memory "${limit}B"
grep -qF '"fits":true' out || fault "what takes $limit bytes doesn't fit into as many"
answers 3 "${one[@]}" --dp 4 --json --memory "$((limit - 1))B"
grep -qF '"fits":false' out || fault "what takes $limit bytes fits into one less"
grep -qF '"change":"--ranks 8"' out || fault "more ranks aren't advised: $(tail -n 5 out)"
answers 3 "${one[@]}" --dp 4 --memory "$((limit - 1))B"
grep -q '^  would fit: --ranks 8, at .* GiB under zero3 with recomputation full, dp [0-9]*, tp [0-9]*, pp [0-9]*$' out || fault "no advice: $(cat out)"
grep -q '^  would fit: --seq 2048, at ' out || fault "shorter sequences aren't advised: $(cat out)"
grep -q '^rank 0 of 4 .* at most' out || fault "one answer isn't shown whole: $(cat out)"
answers 0 "${one[@]}" --ranks 8 --memory "$((limit - 1))B"
answers 3 "${one[@]}" --memory 1MiB
grep -q '^  neither up to 16 times the ranks nor shorter sequences make it fit$' out || fault "1 MiB: $(cat out)"
# With a limit, a strategy that fits isn't planned with more recomputation; --rows 0 has it.
answers 0 small --train lora --dp 2 --sharding zero3 --memory 1GiB --json
[ "$(grep -c '"task"' out)" = 1 ] || fault "what fits is planned again: $(cut -c1-200 out)"
answers 0 small --train lora --dp 2 --sharding zero3 --memory 1GiB --json --rows 0
[ "$(grep -c '"task"' out)" = 3 ] || fault "--rows 0 leaves something out: $(cut -c1-200 out)"

# Of what fits, fewer stages come first, then those that receive least.
answers 0 small --ranks 4 --memory 1GiB --json --rows 0
sed -n 's/.*{"task":"\([a-z]*\)","what":"\([a-z0-9]*\)",.*"pp":\([0-9]*\),.*"fits":true,.*"receives":\([0-9]*\),"stages".*/\1 \2 \3 \4/p' out >order
[ "$(wc -l <order)" -gt 100 ] || fault "$(wc -l <order) answers fit into 1 GiB"
awk '{ now = $1 " " $2 } now == last && ($3 < stages || $3 == stages && $4 < received) { print "after " $0; bad = 1 }
  { last = now; stages = $3; received = $4 } END { exit bad }' order || fault 'the answers are in another order'

# More ranks along tp than key and value heads: all that is planned of them shares the heads, and nothing else does.
for tp in 2 4; do
  answers 0 small --tp $tp --loss whole,chunked --checkpointing none --json
  [ "$(grep -c '"strategy":' out)" = 11 ] || fault "--tp $tp: $(grep -c '"strategy":' out) strategies"
  [ "$(grep -c 'shared_kv<' out)" = $((tp == 4 ? 11 : 0)) ] || fault "--tp $tp: $(grep -c 'shared_kv<' out) strategies share heads"
done
answers 0 gpt2 --tp 4
! grep -q shared_kv out || fault "GPT-2 shares heads: $(cat out)"
sed 's/"num_key_value_heads": 2/"num_key_value_heads": 1/' small/config.json >one_head.json
answers 0 one_head.json --tp 2
[ "$(grep -c '^  first: .*shared_kv<' out)" = 7 ] || fault "one head on two ranks: $(cat out)"

# Of a pruned model the layer with fewest heads decides.
sed 's/"llama"/"weft_pruned_llama"/; s/true}/true, "layer_groups": [2, 1, 2, 1]}/' small/config.json >pruned.json
answers 0 pruned.json --tp 2 --text bf16
grep -qF '  first: strategy<mesh<pp, dp, tp>, replicated, bf16_mixed, shared_kv<>>' out || fault "a pruned Llama: $(cat out)"
refused 1 "layer 1's query heads, 2 in 1 groups, don't divide among tp = 4 ranks" pruned.json --tp 4
sed 's/"gpt2"/"weft_pruned_gpt2"/; s/512}/512, "layer_groups": [4, 2, 2, 4]}/' gpt2/config.json >pruned.json
answers 0 pruned.json --tp 2 --text bf16
grep -qF '  first: strategy<mesh<pp, dp, tp>, replicated, bf16_mixed>' out || fault "a pruned GPT-2: $(cat out)"

# The loss in chunks takes less where logits are what takes most, and is advised where it makes the model fit.
sed 's/"vocab_size": 512/"vocab_size": 65536/; s/"max_position_embeddings": 64/"max_position_embeddings": 512/' small/config.json >many_words.json
few=(many_words.json --train all --sharding replicated --checkpointing full --dp 2)
answers 0 "${few[@]}" --loss whole --json
whole=$(takes)
answers 0 "${few[@]}" --loss chunked --json
chunked=$(takes)
logits=$((512 * 65536 * 2))
# 7 of 8 parts are gone; the device is asked for 8 MiB at a time.
[ $((whole - chunked)) -ge $((logits * 7 / 8 - (8 << 20))) ] || fault "$whole bytes whole, $chunked in chunks; the logits have $logits"
answers 0 "${few[@]}" --loss whole,chunked --rows 0
[ "$(grep -cE '^  replicated  full       (whole|chunked) ' out)" = 2 ] || fault "the loss isn't told apart: $(cat out)"
answers 3 "${few[@]}" --memory "${chunked}B" --json
grep -qF '"change":"--loss chunked"' out || fault "the loss in chunks isn't advised: $(tail -n 5 out)"
answers 3 "${few[@]}" --memory "${chunked}B"
grep -q '^  would fit: --loss chunked, at .* MiB under replicated with recomputation full and the loss in chunks, dp 2, tp 1, pp 1$' out || fault "no advice: $(cat out)"
answers 0 "${few[@]}" --memory "${chunked}B" --loss chunked
answers 3 "${few[@]}" --memory "$((chunked - 1))B" --json
! grep -qF '"change":"--loss chunked"' out || fault "what doesn't fit is advised: $(tail -n 5 out)"
# Where there is a limit, each loss has the least recomputation that fits.
answers 0 many_words.json --train all --sharding replicated --dp 2 --loss whole,chunked --memory 100GiB --json
[ "$(grep -c '"task".*"checkpointing":"none"' out)" = 2 ] && [ "$(grep -c '"task"' out)" = 2 ] || fault "what fits of each loss: $(cut -c1-200 out)"
answers 0 small --text bf16 --loss chunked
[ "$(grep -c '^  first: strategy<.*replicated, bf16_mixed>$' out)" = 1 ] || fault "a text's loss: $(cat out)"

# Every family; what its sizes don't allow is left out, and why.
for folder in llama2 llama3 mistral qwen2 qwen3 gpt2 int8 nf4; do
  answers 0 "$source/pretrained/$folder" --ranks 4
  [ "$(grep -c '^  first: strategy<' out)" = 7 ] || fault "$folder: $(cat out)"
done
answers 0 "$source/pretrained/llama3/config.json" --ranks 4
grep -q "^where tp doesn't divide the key and value heads, its ranks share them: shared_kv<>$" out || fault "that heads are shared isn't said: $(tail -n 8 out)"
grep -q '^  parameter layers.0.query is stored as nf4' out || fault "what is left out of nf4: $(tail -n 8 out)"
answers 0 small --train nf4 --table --pp 2
[ "$(grep -c '^rank [0-9] of 2 (pp [01] of 2)' out)" = 2 ] || fault "--table: $(cat out)"

refused 1 'there is no model to plan; name a folder'
refused 1 "the file missing can't be read: No such file" missing
refused 1 'has no config.json; name a folder as transformers saves a model' "$source"
refused 1 'has adapters alone, no config.json' "$source/pretrained/adapters"
refused 1 'the degrees that are given take 2 ranks, which doesn'"'"'t divide 3; change --dp, --tp, --pp or --ranks' small --ranks 3 --dp 2
refused 1 'the degrees that are given take 2 ranks, not 4' small --ranks 4 --dp 2 --tp 1 --pp 1
refused 1 "4 heads don't divide among tp = 3 ranks" small --tp 3
refused 1 "4 layers don't fill 5 pipeline stages" small --pp 5
refused 1 "a batch of 6 sequences doesn't divide among dp = 4 ranks; choose a --batch" small --dp 4 --batch 6 --train all
refused 1 "a batch of 8 sequences doesn't divide into 3 micro-batches" small --dp 4 --batch 8 --micro-batches 3 --train all
refused 1 '--memory is 24; write a number and its unit' small --memory 24
refused 1 '--memory is 24Gib; write a number and its unit' small --memory 24Gib
refused 1 '--memory is nanB; write a number' small --memory nanB
refused 1 "no choice of --train called 'qlora'; there are, the nearest first: lora, all, int8, nf4" small --train qlora
refused 1 "no choice of --text called 'fp32'" small --text bf16,fp32
refused 1 "no choice of --sharding called 'zero4'; there are, the nearest first: zero1, zero2, zero3, replicated" small --sharding zero4
refused 1 "no choice of --checkpointing called 'all'" small --checkpointing all
refused 1 "no choice of --loss called 'cut'; there are, the nearest first: " small --loss cut
refused 1 'there is no strategy here of what was asked' small --train lora --sharding zero1
refused 1 'there is no strategy here of what was asked' small --train all --sharding zero1 --loss chunked
refused 1 'small/config.json takes sequences of 1 to 64 tokens' small --seq 65
refused 1 '--prompt is 65; the model of small/config.json reads 1 to 64 tokens' small --prompt 65
answers 0 small --text bf16 --prompt 64 --tokens 1
# What would take hours, or all memory.
refused 1 '--seq is 1000000000000; it is from 1 to 16777216' small --seq 1000000000000
refused 1 '--tokens is 65537; it is from 1 to 65536' small --tokens 65537
refused 1 '--micro-batches is 4097; it is from 1 to 4096' small --micro-batches 4097
refused 1 'so much is asked that planning it would take 4 times as long as a plan may; give --micro-batches' small --batch 1048576
answers 0 small --batch 1048576 --micro-batches 2 --train lora --sharding replicated
refused 1 '--ranks is 5000; it is from 1 to 4096' small --ranks 5000
refused 1 '--dp is -1; it is from 1 to 4096' small --dp -1
refused 1 '--threads is 0; it is from 1 to 1024' small --threads 0
refused 1 'take 10000 ranks; a plan has up to 4096' small --dp 100 --tp 100
refused 2 '--ranks: it is many, which is no whole number' small --ranks many
refused 2 '--memory: it is empty; give it a value' small --memory=
refused 2 '--dp is given 2 times; leave it at one' small --dp 2 --dp 4
refused 2 "no option called '--rank'; there are, the nearest first: --ranks," small --rank 4
refused 2 'not expected: gpt2' small gpt2
wrong_config() { # PHRASE SED
  mkdir -p wrong
  sed "$2" small/config.json >wrong/config.json
  refused 1 "the file wrong/config.json$1" wrong
}
wrong_config ': its model_type is mixtral, a model that the library doesn'"'"'t have; it has llama, mistral' 's/"llama"/"mixtral"/'
wrong_config ' has fields that aren'"'"'t known here: experts' 's/"tie_word/"experts": 8, "tie_word/'
wrong_config ' has no field hidden_size' 's/"hidden_size": 128,//'
wrong_config ' has 1025 layers; a plan has up to 1024' 's/"num_hidden_layers": 4/"num_hidden_layers": 1025/'
wrong_config ' has a vocabulary of 1125899906842624 tokens; a plan has up to 16777216' 's/"vocab_size": 512/"vocab_size": 1125899906842624/'
wrong_config " isn't JSON from its byte" 's/^{//'
sed 's/"num_attention_heads": 4/"num_attention_heads": 3/; s/"num_key_value_heads": 2/"num_key_value_heads": 3/' small/config.json >wrong/config.json
refused 1 "hidden 128 doesn't divide by 3 heads" wrong

"$program" --help >out 2>err || fault '--help fails'
for option in train text memory ranks dp tp pp threads sharding checkpointing loss batch micro-batches seq prompt tokens rows table json version; do
  grep -qF -- "--$option" out || fault "--help does not show --$option"
done
answers 0 --version
[ "$(cat out)" = "weft-plan of Weft $version" ] || fault "--version says: $(cat out)"
if [ -e /dev/full ]; then
  "$program" small >/dev/full 2>err && fault 'an answer that nobody takes ends with 0'
  grep -qF "can't be written: No space left on device" err || fault "/dev/full: $(cat err)"
fi

# The page's commands print what it shows.
shown=0
while IFS= read -r command; do
  shown=$((shown + 1))
  (cd "$WEFT_SOURCE_DIR" && eval "${command/#weft-plan/"\"$program\""}") >out 2>err
  awk -v command="$command" '
    $0 == command { found = 1 }
    found && /^```text/ { inside = 1; next }
    inside && /^```/ { exit }
    inside { print }' "$WEFT_SOURCE_DIR/docs/plan.md" >page
  grep -v '^  scratch of kernels  ' out | diff page - >differ || fault "docs/plan.md, $command: $(cat differ)"
done < <(grep '^weft-plan tests/' "$WEFT_SOURCE_DIR/docs/plan.md")
[ $shown -ge 1 ] || fault 'docs/plan.md has no command of weft-plan'

echo "$faults faults"
[ $faults = 0 ]
