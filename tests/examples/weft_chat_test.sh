#!/usr/bin/env bash
# weft-chat: a conversation's answers are transformers' (weft_chat/make_chat.py), what is too long for the model is left out aloud, and
# what can't be done is said in one sentence.
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" weft-chat
references="$WEFT_SOURCE_DIR/tests/examples/weft_chat"
chat() { timeout 120 "$program" "$@" --threads 2 >out 2>err; }

mkdir model
cp "$references/config.json" "$references/model.safetensors" model
cp "$WEFT_SOURCE_DIR/tests/tokenizers/llama3_chat/tokenizer.json" model
brief=(--temperature 0 --tokens 12 --system 'Be brief.')

chat model --weights fp32 "${brief[@]}" <"$references/lines.txt" || fault "it ends with $?: $(cat err)"
diff out "$references/answers.txt" >diff || fault "answers: $(cat diff)"
{ head -n 1 "$references/lines.txt"; echo; echo /new; head -n 1 "$references/lines.txt"; } >twice.txt
chat model --weights fp32 "${brief[@]}" <twice.txt || fault "/new ends with $?: $(cat err)"
# Each answer is printed whole, with the line's end behind it.
half=$(($(wc -c <out) / 2))
[ "$half" -gt 3 ] && cmp -s <(head -c $half out) <(tail -c $half out) || fault "/new isn't a beginning: $(cat out)"
for weights in bf16 int8 nf4; do
  chat model --weights $weights --temperature 0.7 --tokens 5 <"$references/lines.txt" || fault "$weights ends with $?: $(cat err)"
  [ -s out ] || fault "$weights says nothing"
done
chat model --chat none --tokens 4 <"$references/lines.txt" || fault "none ends with $?: $(cat err)"

# The model reads 512 tokens at once.
yes 'once upon a time there was a rank that had a slice of a tensor' | head -n 12 >long.txt
chat model --temperature 0 --tokens 100 <long.txt || fault "a long chat ends with $?: $(cat err)"
grep -qE 'the model reads 512 tokens at once: the [0-9]+ oldest messages are left out' err || fault "a long chat says: $(cat err)"

mkdir other plain
cp model/config.json model/model.safetensors other
refused 1 'other/tokenizer.json' other
cp "$WEFT_SOURCE_DIR/tests/tokenizers/qwen2/tokenizer.json" other
refused 1 "the tokenizer of other has tokens up to 424, and the model knows those below 422" other
cp model/config.json model/model.safetensors plain
cp "$WEFT_SOURCE_DIR/tests/tokenizers/llama2/tokenizer.json" plain
refused 1 "the tokenizer's special tokens don't say how a chat is written; give --chat FORMAT" plain
refused 1 "the tokenizer has no token <|im_start|>, which the chat format chatml is written with" plain --chat chatml
refused 1 'nowhere/config.json' nowhere
refused 1 'temperature is -1' model --temperature -1
refused 2 '--weights' model --weights fp8
refused 2 'FOLDER'
refused 2 'it is 4x, which is no whole number' model --tokens 4x

echo "$faults faults"
[ $faults = 0 ]
