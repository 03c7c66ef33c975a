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

# What tokenizer_config.json says: the token that ends a text ends answers too, and is no part of them; the chat template.
cp -r model configured
head -n 1 "$references/lines.txt" | chat model --weights fp32 "${brief[@]}"
first=$(cat out)
# ends TOKEN TEXT OPTIONS...: with it as eos_token the first line's answer is the text.
ends() {
  local token=$1 text=$2
  shift 2
  printf '{"eos_token":{"content":"%s"}}' "$token" >configured/tokenizer_config.json
  head -n 1 "$references/lines.txt" | chat configured --weights fp32 "$@" --temperature 0 --tokens 12 || fault "eos_token $token ends with $?: $(cat err)"
  [ "$(cat out)" = "$text" ] || fault "with the eos_token $token: $(cat out)"
}
ends '<|eot_id|>' "$first" --system 'Be brief.'
ends ')' "${first%%)*}" --system 'Be brief.'
head -n 1 "$references/lines.txt" | chat model --chat none --weights fp32 --temperature 0 --tokens 12
line=$(cat out)
[ "${line%%D*}" != "$line" ] || fault "no D in $line"
ends D "${line%%D*}" --chat none
printf '{"chat_template":"%s"}' "{{ '<|start_header_id|>' + message['role'] }}" >configured/tokenizer_config.json
chat configured --weights fp32 "${brief[@]}" <"$references/lines.txt" || fault "a chat template ends with $?: $(cat err)"
cmp -s out "$references/answers.txt" || fault "by the chat template: $(cat out)"
printf '{"chat_template":"%s"}' "{{ '<|im_start|>' + message['role'] }}" >configured/tokenizer_config.json
refused 1 'the tokenizer has no token <|im_start|>, which the chat format chatml is written with' configured
printf '{"chat_template":"{{ messages }}"}' >configured/tokenizer_config.json
refused 1 'the chat template of configured/tokenizer_config.json writes chats in none of the formats that are known here' configured
echo '{"eos_token":"no such"}' >configured/tokenizer_config.json
refused 1 "configured/tokenizer_config.json has the eos_token no such, which tokenizer.json beside it doesn't have" configured

# What generation_config.json says: tokens that end answers, and how they are drawn; options go before it.
rm -rf configured
cp -r model configured
# by SETTINGS OPTIONS...: the first line's answer with them, in `out`.
by() {
  echo "$1" >configured/generation_config.json
  shift
  head -n 1 "$references/lines.txt" | chat configured --weights fp32 --system 'Be brief.' "$@" || fault "$* ends with $?: $(cat err)"
}
same() { [ "$(cat out)" = "$1" ] || fault "$2: $(cat out)"; }
paren=$(grep -oE '"\)": *[0-9]+' model/tokenizer.json | grep -oE '[0-9]+')
by '{"do_sample": false, "max_new_tokens": 12}'
same "$first" 'by do_sample false'
by "{\"eos_token_id\": $paren, \"do_sample\": false, \"max_new_tokens\": 12}"
same "${first%%)*}" 'by an eos_token_id'
by "{\"eos_token_id\": [0, $paren], \"do_sample\": false, \"max_new_tokens\": 12}"
same "${first%%)*}" 'by two eos_token_ids'
by '{"do_sample": true, "temperature": 5, "max_new_tokens": 12}'
[ "$(cat out)" != "$first" ] || fault 'a temperature of 5 draws the likeliest'
by '{"do_sample": true, "temperature": 5, "top_k": 1, "max_new_tokens": 12}'
same "$first" 'by top_k 1'
by '{"do_sample": true, "temperature": 5, "max_new_tokens": 3}' --temperature 0 --tokens 12
same "$first" 'options before the file'
by '{"do_sample": false, "repetition_penalty": 1000, "max_new_tokens": 12}'
[ "$(cat out)" != "$first" ] || fault 'a repetition_penalty changes nothing'
by '{"do_sample": false, "repetition_penalty": 1000, "max_new_tokens": 12}' --repetition-penalty 1
same "$first" 'the option before a penalty'
by '{"do_sample": false, "temperature": 0.6, "max_new_tokens": 12}'
same "$first" 'a temperature that is passed over'
[ "$(grep -c 'says temperature, and do_sample' err)" = 1 ] || fault "a temperature that is passed over says: $(cat err)"
echo '{"num_beam": 1}' >configured/generation_config.json
refused 1 "configured/generation_config.json has fields that aren't known here: num_beam; texts that" configured
echo '{"eos_token_id": 422}' >configured/generation_config.json
refused 1 'configured/generation_config.json has the eos_token_id 422, and the model knows those below 422' configured

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
