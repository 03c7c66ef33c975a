#!/usr/bin/env bash
# weft-convert: what transformers wrote comes back from a checkpoint in the same bytes; a run's newest checkpoint becomes a folder, with the
# tokenizer of another; what can't be done is said in one sentence.
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" weft-convert
folders="$WEFT_SOURCE_DIR/tests/pretrained" tokenizers="$WEFT_SOURCE_DIR/tests/tokenizers"
ok() { timeout 120 "$program" "$@" >out 2>err || fault "$* ends with $?: $(cat err)"; }

for model in llama2:fp16 llama3:bf16 mistral:bf16 qwen2_window:bf16 qwen3:bf16 gpt2:fp16; do
  name=${model%:*}
  ok "$folders/$name" "to begin/$name"
  said "wrote the weights of $folders/$name to the checkpoint to begin/$name"
  ok "to begin/$name" "back/$name" --type "${model#*:}"
  cmp "$folders/$name/model.safetensors" "back/$name/model.safetensors" || fault "$name comes back as others"
done
[ ! -s out ] || fault "it writes to stdout"
ok "$folders/qwen2" "to begin/qwen2"  # of three files
ok "to begin/qwen2" back/qwen2 --like "$tokenizers/llama3_chat"
cmp "$tokenizers/llama3_chat/tokenizer.json" back/qwen2/tokenizer.json || fault "the tokenizer isn't taken along"

# A run's newest, whatever its strategy.
if [ -x "$WEFT_BINARY_DIR/examples/train_llama" ]; then
  seq 1 3000 >text
  "$WEFT_BINARY_DIR/examples/train_llama" --data text --layers 2 --hidden 32 --heads 4 --seq 16 --batch 4 --steps 4 --save-every 2 --dp 2 --tp 2 \
    --sample-tokens 0 --strategy zero3-bf16 --out 'a run' >out 2>err || fault "train_llama ends with $?: $(cat err)"
  ok 'a run' newest --type bf16
  said 'wrote the weights of a run/checkpoints/step-00000004 to newest'
  ok 'a run/checkpoints' newest.again --type bf16
  cmp newest/model.safetensors newest.again/model.safetensors || fault "a run's folder isn't its newest checkpoint"
  grep -q '"dtype": "bfloat16"' newest/config.json || fault "config.json: $(cat newest/config.json)"
  ok newest begun
  cp 'a run/checkpoints/step-00000002/state.safetensors' 'a run/checkpoints/step-00000004'
  refused 1 'was saved at batch 2, update 2, seed 1' 'a run' exchanged
  [ ! -e exchanged ] || fault "a checkpoint that is refused leaves a folder"
fi

refused 2 'FROM is required'
refused 2 'not in {bf16,fp16,fp32,fp64}' back/gpt2 o --type int8
refused 1 'the folder nowhere isn'\''t there' nowhere o
refused 1 'holds no whole checkpoint' back o
refused 1 '--type and --like are for a Hugging Face folder that is written' back/gpt2 o --type fp32
refused 1 'the folder back/gpt2 is there already' back/llama2 back/gpt2
refused 1 'model_type is "phi3"' "$folders/phi3" o
refused 1 'nowhere, whose tokenizer is to be taken along, isn'\''t there' 'to begin/gpt2' o --like nowhere
[ ! -e o ] || fault "what is refused leaves $(ls o)"
"$program" --version | grep -qF "weft-convert of Weft $version" || fault "--version: $("$program" --version)"
echo "$faults faults"
[ $faults = 0 ]
