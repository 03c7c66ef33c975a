#!/usr/bin/env bash
# weft-tokenize: tokens and losses are those of the packages tokenizers and transformers (weft_tokenize/make_references.py); what it
# can't read it says in one sentence, with file, line and place, and then writes nothing.
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" weft-tokenize
references="$WEFT_SOURCE_DIR/tests/examples/weft_tokenize" tokenizers="$WEFT_SOURCE_DIR/tests/tokenizers"

# ok OPTIONS...: has to end well; what it says is in `err`.
ok() { timeout 120 "$program" "$@" >out 2>err || fault "$* ends with $?: $(cat err)"; }
# unwritten STATUS PHRASE OPTIONS...: refused, and no file is left.
unwritten() {
  rm -f o.*
  refused "$@" --out o
  [ -z "$(ls o.* 2>/dev/null)" ] || fault "$* leaves $(ls o.*)"
}
# documents STEM: a line of tokens for each document of Megatron's pair, whose tokens take two bytes.
documents() {
  local count
  count=$(od -An -v -td8 -j18 -N8 "$1.idx" | tr -d ' ')
  od -An -v -td4 -w4 -j34 -N$((4 * count)) "$1.idx" | tr -d ' ' |
    awk -v data="od -An -v -tu2 -w2 $1.bin" '{ line = ""; for (i = 0; i < $1; i++) { if ((data | getline t) <= 0) exit; line = line (i ? " " : "") t + 0 } print line }'
}

# --- Tokens.
for threads in 1 3; do
  ok --tokenizer "$tokenizers/llama3_chat" --end '<|eot_id|>' --out texts "$references/texts.jsonl" --threads $threads
  documents texts | diff - "$references/texts.tokens" >diff || fault "texts: $(head -n 4 diff)"
  [ ! -e texts.loss.idx ] || fault "texts have a loss"
  ok --tokenizer "$tokenizers/llama3_chat/tokenizer.json" --out chats "$references/chats.jsonl" --threads $threads
  documents chats | diff - "$references/chats.tokens" >diff || fault "chats: $(head -n 4 diff)"
  documents chats.loss | diff - "$references/chats.loss" >diff || fault "the chats' loss: $(head -n 4 diff)"
done
[ ! -s out ] || fault "it writes to stdout"
said "wrote chats.bin, chats.idx, chats.loss.bin, chats.loss.idx"
# Not a chat any more: a loss that an earlier output left would be taken for this one's.
ok --tokenizer "$tokenizers/llama3_chat" --no-end --out chats "$references/texts.jsonl"
[ ! -e chats.loss.idx ] && [ ! -e chats.loss.bin ] || fault "an earlier output's loss stays beside other tokens"
tr ' ' '\n' <"$references/texts.tokens" >flat
ok --tokenizer "$tokenizers/llama3_chat" --end '<|eot_id|>' --format llmc --out l "$references/texts.jsonl"
od -An -v -tu2 -w2 -j1024 l.bin | tr -d ' ' | diff - flat >diff || fault "llm.c: $(head -n 4 diff)"
[ "$(od -An -td4 -N12 l.bin | tr -s ' ')" = " 20240520 1 $(wc -l <flat)" ] || fault "llm.c's header is $(od -An -td4 -N12 l.bin)"
ok --tokenizer "$tokenizers/qwen2" --chat llama3 --help

# --- Forms of a text. The end is <|endoftext|>, 0.
mkdir g
cp "$tokenizers/gpt2/tokenizer.json" g
tokens_of() { ok --tokenizer g --no-end --out t "$@"; documents t; }
printf '{"text":"a"}\n\n{"text":"b b"}\r\n  \n{"text":""}\n{"text":"c"}' >unix.jsonl
[ "$(tokens_of unix.jsonl | wc -l)" = 3 ] || fault "empty lines and documents: $(documents t)"
said "3 documents, "
said "; 1 empty ones left out"
a=$(documents t | head -n 1)
printf 'a\r\n\nb b\n' >lines.txt
tokens_of lines.txt --lines >by_lines
[ "$(wc -l <by_lines)" = 2 ] && [ "$(head -n 1 by_lines)" = "$a" ] || fault "lines: $(cat by_lines)"
printf '\xEF\xBB\xBFa\n---\n---\nb b\n---\nb b\n' >cut.txt
tokens_of cut.txt --separator --- >by_separator
[ "$(wc -l <by_separator)" = 3 ] && [ "$(head -n 1 by_separator)" = "$a" ] || fault "separators: $(cat by_separator)"
[ "$(sed -n 2p by_separator)" = "$(sed -n 2p by_lines)" ] || fault "separators: $(cat by_separator)"
[ "$(tokens_of cut.txt | wc -l)" = 1 ] || fault "a file is one document: $(documents t)"
[ "$(tokens_of unix.jsonl lines.txt | wc -l)" = 4 ] || fault "two files: $(documents t)"
printf '{"body":"a","text":3}\n' >body.jsonl
[ "$(tokens_of body.jsonl --field body)" = "$a" ] || fault "another field: $(documents t)"
[ "$(cat body.jsonl | tokens_of /dev/stdin --read json --field body)" = "$a" ] || fault "from a pipe"
ok --tokenizer g --out t unix.jsonl
[ "$(documents t | head -n 1)" = "$a 0" ] || fault "the end that is known by its name: $(documents t)"
printf '{"eos_token":{"content":"the","lstrip":false}}' >g/tokenizer_config.json
ok --tokenizer g --out t unix.jsonl
[ "$(documents t | awk 'NR == 1 { print $NF }')" != 0 ] || fault "the end of tokenizer_config.json: $(documents t)"
(cd g && timeout 60 "$program" --tokenizer tokenizer.json --out ../t ../unix.jsonl 2>../err) || fault "a file's name alone: $(cat err)"
[ "$(documents t | awk 'NR == 1 { print $NF }')" != 0 ] || fault "a file's name alone isn't of this folder: $(documents t)"
cp unix.jsonl UNIX.JsonL
[ "$(tokens_of UNIX.JsonL | wc -l)" = 3 ] || fault "another case of a file's name: $(documents t)"
tokens_of --separator= lines.txt | cmp -s - by_lines || fault "an empty separator: $(documents t)"
[ "$(tokens_of --lines --field text unix.jsonl lines.txt | wc -l)" = 5 ] || fault "options of one of two files: $(documents t)"
printf '{"text":"' >long.jsonl
head -c 3000000 /dev/zero | tr '\0' 'x' >>long.jsonl
printf '"}\n{"text":"a"}\n' >>long.jsonl
ok --tokenizer g --no-end --out t long.jsonl
said "2 documents, "
[ "$(tail -c 2 t.bin | od -An -tu2 | tr -d ' ')" = "$a" ] || fault "behind a long line: $(tail -c 2 t.bin | od -An -tu2)"
mkfifo pipe
# piped OPTIONS...: the program in the background, as `own`; what goes to descriptor 9 it reads as ./pipe. Nobody waits to open it.
piped() {
  exec 9<>pipe
  "$program" --tokenizer g --out t "$@" 2>piped 9>&- &
  own=$!
}
# What is in memory is a batch: it doesn't grow by what is read, once that is several.
line='{"text":"a","skip":"'$(head -c 65536 /dev/zero | tr '\0' 'x')'"}'
# reads N: N lines more; then the most that it had in memory, in KiB. What it hasn't read yet fits into the pipe.
reads() { yes "$line" | head -n "$1" | timeout 120 cat >&9; awk '/^VmHWM:/ { print $2 }' "/proc/$own/status"; }
piped --no-end pipe --read json --threads 1
before=$(reads 500)
after=$(reads 1000)
exec 9>&-
wait "$own" || fault "a long pipe ends with $?: $(cat piped)"
if [ -e /proc/self/status ]; then  # 64 MiB more were read
  [ "${before:-0}" -gt 0 ] && [ "$after" -lt $((before + 16384)) ] || fault "memory grows with the file: $before KiB, then $after"
fi
cp piped err
said "1500 documents, 1500 tokens"

# --- What is refused.
printf '{"text":"a"}\n{"text":"b"\n' >bad.jsonl
printf '{"text":"a","messages":[{"role":"user","content":"b"},{"role":"assistant","content":"c"}]}\n' >both.jsonl
unwritten 1 'there are both text and messages; --field text takes the one, --chat FORMAT the other' --tokenizer "$tokenizers/llama3_chat" both.jsonl
[ "$(tokens_of both.jsonl --field text)" = "$a" ] || fault "the text of two: $(documents t)"
ok --tokenizer "$tokenizers/llama3_chat" --chat llama3 --out t both.jsonl
[ -e t.loss.idx ] || fault "the chat of two has no loss"
unwritten 1 "the file bad.jsonl, line 2, isn't JSON from its byte 12 on, of 11" --tokenizer g bad.jsonl
printf '{"text":"a"}\n{"text":"\xff"}\n' >bytes.jsonl
unwritten 1 "the file bytes.jsonl, line 2, isn't JSON from its byte 10 on" --tokenizer g bytes.jsonl
printf 'fine\n\xc3\xa9t\xc3\n' >bytes.txt
unwritten 1 "the file bytes.txt, line 2: its byte 4 is no UTF-8" --tokenizer g bytes.txt
printf '{"text":"a"}\n{"txt":"b","n":1}\n' >field.jsonl
unwritten 1 "the file field.jsonl, line 2: there is no field text; --field names another; there are: n, txt" --tokenizer g field.jsonl
printf '{"text":["b"]}\n' >kind.jsonl
unwritten 1 'the file kind.jsonl, line 1: text is a list, and has to be a string' --tokenizer g kind.jsonl
printf '{"text":"a","text":"b"}\n' >twice.jsonl
unwritten 1 'the file twice.jsonl, line 1, names "text" twice' --tokenizer g twice.jsonl
printf '[{"text":"a"}]\n' >list.jsonl
unwritten 1 "it is a list, and has to be an object; \`jq -c '.[]'\` makes a line of each" --tokenizer g list.jsonl
printf '3\n' >number.jsonl
unwritten 1 "the file number.jsonl, line 1: it is no object" --tokenizer g number.jsonl
: >empty.jsonl
unwritten 1 "there is no document with text in empty.jsonl" --tokenizer g empty.jsonl
unwritten 1 "there is no document with text in empty.jsonl" --tokenizer g --read text empty.jsonl
printf '{"text":""}\n' >none.jsonl
unwritten 1 "only 1 that are empty or without an answer" --tokenizer g none.jsonl
unwritten 1 "missing.jsonl can't be read: No such file" --tokenizer g missing.jsonl
unwritten 1 "none/tokenizer.json can't be read: No such file" --tokenizer none unix.jsonl
unwritten 1 'has no token "<|no|>", which is to end a document' --tokenizer g --end '<|no|>' unix.jsonl
unwritten 1 "has no tokenizer_config.json with an eos_token; give --end TOKEN, or --no-end" --tokenizer "$tokenizers/qwen2" unix.jsonl
head -c 1000000 /dev/zero | tr '\0' '[' >deep
{ printf '{"text":' && cat deep && tr '[' ']' <deep && echo '}'; } >deep.jsonl
unwritten 1 'the file deep.jsonl, line 1, has more than 128 objects and arrays within each other in its JSON' --tokenizer g deep.jsonl
unwritten 1 "--lines is of texts, and there are only files of JSON" --tokenizer g --lines unix.jsonl
unwritten 1 "--separator is of texts, and there are only files of JSON" --tokenizer g --separator x lines.txt --read json
unwritten 1 "--field is of JSON's objects, and there are only texts" --tokenizer g --field text lines.txt
refused 1 "--out g/ names a folder; give what the files' names begin with, g/texts for example" --tokenizer g --out=g/ unix.jsonl
[ ! -e g/.bin ] || fault "a file of no name"
cp lines.txt in.bin
refused 1 "the output ./in.bin would be written over the file in.bin, which is read" --tokenizer g --out=./in in.bin
cmp -s lines.txt in.bin || fault "an input is written over"
refused 2 "empty" --tokenizer g --out= t unix.jsonl
refused 2 "--out is given 2 times" --tokenizer g --out=o --out o unix.jsonl
timeout 60 "$program" --tokenizer g --out none/o unix.jsonl 2>err && fault "an output in no folder"
said "make its folder first"

# --- Lines that are left out: the first few are named, all are counted.
{ echo 'no'; echo '{"txt":1}'; cat unix.jsonl; printf '\n{"text":7}\n{"text":"\xff"}\n[1]\n{"text":"b b"}\n{\n'; } >mixed.jsonl
for threads in 1 3; do
  [ "$(tokens_of mixed.jsonl --skip-bad-lines --threads $threads | wc -l)" = 4 ] || fault "bad lines: $(documents t)"
  said "4 documents, "
  said "; 1 empty ones left out; 6 bad lines left out"
  [ "$(grep -c '^weft-tokenize: left out: ' err)" = 5 ] || fault "not five are named: $(cat err)"
  [ "$(sed -n 1,5p err | grep -oE 'line [0-9]+' | tr '\n' ' ')" = 'line 1 line 2 line 9 line 10 line 11 ' ] || fault "others are named: $(cat err)"
  said "weft-tokenize: left out: the file mixed.jsonl, line 9: text is 7, and has to be a string"
done
documents t | head -n 1 | grep -qx "$a" || fault "beside bad lines: $(documents t)"
unwritten 1 "the file mixed.jsonl, line 1, isn't JSON" --tokenizer g mixed.jsonl
printf 'a\n\xff\nb b\n' >mixed.txt
[ "$(tokens_of mixed.txt --lines --skip-bad-lines | wc -l)" = 2 ] || fault "bad lines of a text: $(documents t)"
said "left out: the file mixed.txt, line 2: its byte 1 is no UTF-8"
ok --tokenizer g --out t unix.jsonl
timeout 60 "$program" --tokenizer g --out t --skip-bad-lines list.jsonl 2>err && fault "nothing but a bad line is taken"
said "there is no document with text in list.jsonl; 1 bad lines were left out"
[ -e t.bin ] || fault "nothing but bad lines takes an earlier output away"
timeout 60 "$program" --tokenizer g --out t --skip-bad-lines unix.jsonl bytes.txt 2>err && fault "a file that is no text is left out as a line"
said "the file bytes.txt, line 2: its byte 4 is no UTF-8"
unwritten 1 "--skip-bad-lines is of lines that are documents, and here files are" --tokenizer g --skip-bad-lines lines.txt
unwritten 1 "the file texts.jsonl.zst is compressed; pipe it in: zstdcat texts.jsonl.zst | weft-tokenize ... /dev/stdin --read json" --tokenizer g texts.jsonl.zst

# --- What gzip wrote.
gzip <body.jsonl >body.jsonl.gz
[ "$(zcat body.jsonl.gz | tokens_of /dev/stdin --read json --field body)" = "$a" ] || fault "what a refusal says: $(documents t)"
if "$program" --tokenizer g --no-end --field body --out t body.jsonl.gz 2>err; then
  [ "$(documents t)" = "$a" ] || fault "packed JSON: $(documents t)"
  tokens_of lines.txt --lines >by_lines
  gzip -c lines.txt >lines.txt.GZ
  tokens_of lines.txt.GZ --lines | cmp -s - by_lines || fault "packed lines: $(documents t)"
  # Several parts, as `cat` and block compression make them, one of them empty.
  { gzip <unix.jsonl; echo | gzip; : | gzip; gzip <both.jsonl; } >parts.jsonl.gz
  { cat unix.jsonl; echo; cat both.jsonl; } >parts.jsonl
  tokens_of parts.jsonl --field text >of_parts
  tokens_of parts.jsonl.gz --field text | cmp -s - of_parts || fault "several parts: $(documents t)"
  # Longer than the blocks that are read, packed and unpacked. What is wrong has the line's number in the text.
  { for _ in 1 2; do echo '{"text":"a","skip":"'"$(head -c 600000 /dev/urandom | base64 -w0)"'"}'; done; echo '{"text":7}'; } | gzip -1 >long.jsonl.gz
  unwritten 1 "the file long.jsonl.gz, line 3: text is 7, and has to be a string" --tokenizer g long.jsonl.gz
  : | gzip >none.jsonl.gz
  unwritten 1 "there is no document with text in none.jsonl.gz" --tokenizer g none.jsonl.gz
  # Cut off in the header, in the data, in the checksum; after the end of a part; nothing at all.
  size=$(wc -c <parts.jsonl.gz)
  for kept in 0 5 40 $((size - 1)) $((size - 8)); do
    head -c "$kept" parts.jsonl.gz >cut.jsonl.gz
    unwritten 1 ", byte $kept of it as it lies there: its compressed data end too early; it was cut off" --tokenizer g --field text cut.jsonl.gz
  done
  seq 2000 | sed 's/.*/{"text":"a"}/' | gzip | head -c -20 >cut.jsonl.gz
  unwritten 1 "the file cut.jsonl.gz, line $(($(zcat cut.jsonl.gz 2>zcat | wc -l) + 1)), byte " --tokenizer g cut.jsonl.gz
  cp parts.jsonl.gz changed.jsonl.gz
  printf '\377' | dd of=changed.jsonl.gz bs=1 seek=$((size - 6)) conv=notrunc 2>dd  # the checksum
  unwritten 1 "the file changed.jsonl.gz, line " --tokenizer g --field text changed.jsonl.gz
  said "its compressed data aren't sound: incorrect data check; it was changed, or isn't gzip's"
  cp unix.jsonl plain.jsonl.gz
  unwritten 1 "the file plain.jsonl.gz, line 1, byte 2 of it as it lies there: its compressed data aren't sound: incorrect header check" --tokenizer g plain.jsonl.gz
  { cat parts.jsonl.gz; echo more; } >more.jsonl.gz
  unwritten 1 "its compressed data aren't sound: incorrect header check" --tokenizer g --field text more.jsonl.gz
  { cat parts.jsonl.gz; head -c 700000 /dev/zero; } >zeros.jsonl.gz  # as on tapes: gzip passes them over
  tokens_of zeros.jsonl.gz --field text | cmp -s - of_parts || fault "zeros behind the parts: $(documents t)"
  { cat parts.jsonl.gz; printf '\0'; } >zeros.jsonl.gz
  tokens_of zeros.jsonl.gz --field text | cmp -s - of_parts || fault "a zero behind the parts: $(documents t)"
  { cat parts.jsonl.gz; head -c 700 /dev/zero; gzip <unix.jsonl; } >zeros.jsonl.gz
  unwritten 1 "byte $((size + 700)) of it as it lies there: behind its compressed data stand zeros, and then other bytes" --tokenizer g --field text zeros.jsonl.gz
  head -c 700 /dev/zero >zeros.jsonl.gz
  unwritten 1 "its compressed data aren't sound: incorrect header check" --tokenizer g --field text zeros.jsonl.gz
  unwritten 1 "gone.jsonl.gz can't be read: No such file" --tokenizer g gone.jsonl.gz
  unwritten 1 "the file texts.tar.gz is an archive of files; unpack it: tar -xzf texts.tar.gz" --tokenizer g texts.tar.gz
else
  unwritten 1 "the file body.jsonl.gz is compressed, and this was built without zlib; pipe it in: zcat body.jsonl.gz | weft-tokenize" --tokenizer g body.jsonl.gz
fi

chat() { printf '%s\n' "$1" >chat.jsonl; }
chat '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
unwritten 1 "special tokens don't say how a chat is written; give --chat FORMAT" --tokenizer g chat.jsonl
unwritten 1 "the tokenizer has no token <|im_start|>, which the chat format chatml is written with" --tokenizer g --chat chatml chat.jsonl
unwritten 1 "llm.c's files don't say which tokens the loss is on" --tokenizer "$tokenizers/qwen2" --format llmc chat.jsonl
unwritten 1 "there is no field text; --field names another; there are: messages" --tokenizer g --field text chat.jsonl
ok --tokenizer "$tokenizers/qwen2" --end '<|im_start|>' --out c chat.jsonl
[ "$(documents c.loss | awk '{ print $NF }')" = 0 ] || fault "the loss is on an end that the chat doesn't have"
echo '{"text":"a"}' >>chat.jsonl
unwritten 1 "the file chat.jsonl, line 2: there is no list messages, nor conversations" --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}]}'
unwritten 1 "line 1: message 2 is a tool's, which the chat format chatml doesn't write; qwen2.5 does" --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"messages":[{"role":"user","content":"a"},{"role":"function","content":"b"}]}'
unwritten 1 'line 1: messages[1].role is "function", and has to be system, user, assistant or tool' --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"messages":[{"role":"user","content":null}]}'
unwritten 1 'line 1: messages[0].content is null, and has to be a string' --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"conversations":[{"from":"human"}]}'
unwritten 1 'line 1: there is no field conversations[0].value; there are: from' --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"messages":[7]}'
unwritten 1 'line 1: messages[0] is 7, and has to be an object' --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"messages":[{"role":"assistant","content":"b"}]}'
unwritten 1 "line 1: message 1 is the assistant's, and in the chat format llama2 user and assistant take turns" --tokenizer "$tokenizers/llama2" --chat llama2 chat.jsonl
chat '{"messages":[{"role":"user","content":"b"}]}'
unwritten 1 "only 1 that are empty or without an answer" --tokenizer "$tokenizers/qwen2" chat.jsonl

unwritten 1 "the file lines.txt, line 1: it is text, and the lines before are chats" --tokenizer "$tokenizers/qwen2" chat.jsonl lines.txt
# --- How chats are written, by the chat template.
mkdir t
templated() { cp "$tokenizers/$1/tokenizer.json" t; printf '{"eos_token":null,"chat_template":%s}' "$2" >t/tokenizer_config.json; }
# known FORMAT TOKENIZER TEMPLATE: tokens are those of --chat FORMAT.
known() {
  templated "$2" "$3"
  ok --tokenizer t --out c chat.jsonl
  documents c >by_template
  ok --tokenizer "$tokenizers/$2" --chat "$1" --out c chat.jsonl
  documents c | diff - by_template >diff || fault "a template of $1: $(cat diff)"
}
chat '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
im="{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
system() { echo "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n$1<|im_end|>\\n' }}{% endif %}$im"; }
turns="{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}"
inst="{{ '[INST] ' + message['content'] + ' [/INST]' }}"
known chatml qwen2 "\"$im\""
known qwen2 qwen2 "\"$(system 'You are a helpful assistant.')\""
known qwen2.5 qwen2 "\"$(system 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.')\""
known qwen2 qwen2 '[{"name":"tool_use","template":"x"},{"name":"default","template":"'"$(system 'You are a helpful assistant.')"'"}]'
known llama3 llama3_chat "\"$turns\""
known llama2 llama2 "\"{{ '<<SYS>>' + system_message }}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}\""
known mistral llama2 "\"$inst\""
templated qwen2 null
cp "$tokenizers/qwen3.jinja" t/chat_template.jinja
ok --tokenizer t --out c chat.jsonl
documents c >by_template
ok --tokenizer "$tokenizers/qwen2" --chat qwen3 --out c chat.jsonl
documents c | diff - by_template >diff || fault "a template of qwen3: $(cat diff)"
sed "s/loop.last or (not loop.last and reasoning_content)/loop.last/" "$tokenizers/qwen3.jinja" >t/chat_template.jinja
unwritten 1 "writes chats in none of the formats that are known here" --tokenizer t chat.jsonl
rm t/chat_template.jinja
for other in "qwen2:$(system 'You are a helpful AI assistant named Other.')" "qwen2:$im<think>" "llama3_chat:Cutting Knowledge Date: $turns" "llama2:{{ '[INST]' + message['content'] + '[/INST]' }}" "qwen2:$im$turns" "qwen2:"; do
  templated "${other%%:*}" "\"${other#*:}\""
  unwritten 1 "the chat template of t/tokenizer_config.json writes chats in none of the formats that are known here; take the nearest: give" --tokenizer t chat.jsonl
done
ok --tokenizer t --chat qwen2 --out c chat.jsonl
echo "$im" >t/chat_template.jinja  # as transformers writes it since 4.52
ok --tokenizer t --out c chat.jsonl
documents c >by_template
ok --tokenizer t --chat chatml --out c chat.jsonl
documents c | cmp -s - by_template || fault "a template of its own file: $(cat by_template)"

# What would be learned otherwise is not passed over.
answers() { ok --tokenizer "$tokenizers/qwen2" --out c chat.jsonl; documents c.loss | awk '{ n = 0; for (i = 2; i <= NF; i++) n += $i > $(i - 1); print n, $(NF - 1) }'; }
weighed() { chat '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"'"$1"'},{"role":"user","content":"c"},{"role":"assistant","content":"d"'"$2"'}],"tools":[],"system":""}'; }
weighed "" ',"weight":null,"tool_calls":null'
[ "$(answers)" = "2 1" ] || fault "two answers: $(documents c.loss)"
cp c.bin both
weighed ',"weight":0' ',"weight":1'
[ "$(answers)" = "1 1" ] || fault "the first answer weighs nothing: $(documents c.loss)"
cmp -s c.bin both || fault "a weight changes tokens"
weighed ',"weight":1.0' ',"weight":0.0'
[ "$(answers)" = "1 0" ] || fault "the second answer weighs nothing: $(documents c.loss)"
weighed ',"weight":0' ',"weight":0'
unwritten 1 "only 1 that are empty or without an answer" --tokenizer "$tokenizers/qwen2" chat.jsonl
weighed "" ',"weight":0.5'
unwritten 1 "messages[3].weight is 0.5, and has to be 0, for no loss, or 1" --tokenizer "$tokenizers/qwen2" chat.jsonl
weighed "" ',"weight":"0"'
unwritten 1 'messages[3].weight is "0", and has to be 0, for no loss, or 1' --tokenizer "$tokenizers/qwen2" chat.jsonl
weighed "" ',"tool_calls":[{"id":"x"}]'
unwritten 1 "line 1: messages[3].tool_calls: call 1 has to be an object with a name and arguments" --tokenizer "$tokenizers/qwen2" --chat qwen2.5 chat.jsonl
weighed "" ',"tool_calls":[{"name":"f","arguments":{}}]'
unwritten 1 "line 1: message 4 calls a tool, which the chat format chatml doesn't write; qwen2.5 does" --tokenizer "$tokenizers/qwen2" chat.jsonl
weighed ',"function_call":{"name":"f"}' ""
unwritten 1 "there is a field messages[1].function_call, which no chat format here writes" --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"messages":[{"role":"user","content":"a","weight":1},{"role":"assistant","content":"b"}]}'
unwritten 1 "messages[0].weight is 1, and the loss is on what the assistant says alone" --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"tools":[{"type":"function"}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
unwritten 1 "line 1: there are tools, which the chat format chatml doesn't write; qwen2.5 does" --tokenizer "$tokenizers/qwen2" chat.jsonl
chat '{"tools":[7],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
unwritten 1 "line 1: tools: tool 1 has to be an object" --tokenizer "$tokenizers/qwen2" --chat qwen2.5 chat.jsonl
chat '{"tools":[{"d":-9223372036854775809}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
unwritten 1 "which 64 bits don't hold whole" --tokenizer "$tokenizers/qwen2" --chat qwen2.5 chat.jsonl
# Members keep their order, arguments may be a string of JSON, and the loss is on calls and answers alone.
chat '{"tools":[{"name":"f","d":1.50}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"b\":[\"x\"]}"}}]},{"role":"tool","tool_call_id":"1","content":"4"},{"role":"assistant","content":"b"}]}'
ok --tokenizer "$tokenizers/qwen2" --chat qwen2.5 --out c chat.jsonl
documents c >with_tools
called='<tool_call>\n{"name": "f", "arguments": {"z": 1, "b": ["x"]}}\n</tool_call><|im_end|>'
printf '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{"name": "f", "d": 1.5}\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n'"$called"'\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n' >written.txt
ok --tokenizer "$tokenizers/qwen2" --no-end --out w written.txt
documents w | cmp -s - with_tools || fault "tools: $(cat with_tools), not $(documents w)"
printf "$called"'b<|im_end|>' >learned.txt
ok --tokenizer "$tokenizers/qwen2" --no-end --out w learned.txt
[ "$(documents c.loss | tr ' ' '\n' | grep -c 1)" = "$(documents w | wc -w)" ] || fault "the loss of calls: $(documents c.loss)"
# A tool of very many members: each is found among the others at once.
chat "{\"tools\":[{$(seq 60000 | sed 's/.*/"&":&/' | paste -sd,)}],\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}"
"$program" --tokenizer "$tokenizers/qwen2" --chat qwen2.5 --out many chat.jsonl >out 2>&1 || fault "many members: $(cat out)"
grep -q '^1 documents, ' out || fault "many members: $(cat out)"
# In qwen3 arguments that are a string stand as they are.
chat '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"<think>\nb\n</think>\n\n","tool_calls":[{"name":"f","arguments":"{\"z\":1}"}]},{"role":"tool","content":"4"},{"role":"assistant","content":"<think>d</think>e"}]}'
ok --tokenizer "$tokenizers/qwen2" --chat qwen3 --out c chat.jsonl
documents c >with_tools
printf '<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\nb\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"z":1}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\nd\n</think>\n\ne<|im_end|>\n' >written.txt
ok --tokenizer "$tokenizers/qwen2" --no-end --out w written.txt
documents w | cmp -s - with_tools || fault "tools of qwen3: $(cat with_tools), not $(documents w)"
chat '{"messages":[{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"d","content":"e"}]}'
unwritten 1 "there is a field messages[1].reasoning_content, which no chat format here writes; write what it says into the messages" --tokenizer "$tokenizers/qwen2" --chat qwen3 chat.jsonl
chat '{"system":"s","conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}'
unwritten 1 "line 1: there is a field system, which no chat format here writes" --tokenizer "$tokenizers/qwen2" chat.jsonl

unwritten 2 "required" --tokenizer g
unwritten 2 "--format" --tokenizer g --format csv unix.jsonl
unwritten 2 "--chat" --tokenizer g --chat claude unix.jsonl
unwritten 2 "excludes" --tokenizer g --lines --separator x unix.jsonl
unwritten 2 "--threads" --tokenizer g --threads -1 unix.jsonl
unwritten 2 "--wrong" --tokenizer g --wrong unix.jsonl

# --- An output of before stays where the next one fails, or is stopped.
ok --tokenizer g --out t unix.jsonl
cp t.bin before
timeout 60 "$program" --tokenizer g --out t bad.jsonl 2>err && fault "bad.jsonl is taken"
cmp -s t.bin before || fault "a failed run changed the output"
# has_begun: waits until the program writes.
has_begun() {
  for _ in {1..600}; do [ -e t.bin.unfinished ] && return; sleep 0.1; done
  fault "it didn't begin"
}
piped --read json unix.jsonl pipe
has_begun
refused 1 "t.bin can't be written: another program is writing it; wait for its end, or give another name" --tokenizer g --out=t unix.jsonl
[ -e t.bin.unfinished ] || fault "one that was refused takes another's file away"
for _ in {1..600}; do kill -TERM $own 2>/dev/null || break; sleep 0.1; done  # before it waits for the pipe, or while
wait $own
[ $? = 130 ] || fault "a run that was stopped ends with another number: $(cat piped)"
exec 9>&-
cp piped err
said "it was asked to stop, and wrote nothing"
cmp -s t.bin before || fault "a stopped run changed the output"
[ -z "$(ls ./*.unfinished 2>/dev/null)" ] || fault "left behind: $(ls ./*.unfinished)"
# A signal that who started it has ignored, as nohup does, is ignored.
trap '' HUP TERM
piped --read json unix.jsonl pipe
trap - HUP TERM
has_begun
kill -HUP $own
kill -TERM $own
for _ in {1..600}; do ls -l "/proc/$own/fd" | grep -q '/pipe$' && break; sleep 0.1; done  # else nobody would have what is written
echo '{"text":"b b"}' >&9
exec 9>&-
wait $own || fault "a signal that is ignored ends it: $(cat piped)"
cp piped err
said "4 documents, "
# A disk that doesn't take the index leaves all of an output of before, the loss of its chats with it.
chat '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
ok --tokenizer "$tokenizers/qwen2" --out c chat.jsonl
mkdir whole && cp c.* whole
for _ in {1..1500}; do echo a; done >many.txt
(trap '' XFSZ; ulimit -f 8; timeout 60 "$program" --tokenizer g --out c --no-end --lines many.txt 2>err) && fault "a file larger than may be"
said "can't be written: File too large"
for file in c.bin c.idx c.loss.bin c.loss.idx; do cmp -s $file whole/$file || fault "a failed run changed $file"; done
[ -z "$(ls ./*.unfinished 2>/dev/null)" ] || fault "left behind: $(ls ./*.unfinished)"

# Installed beside the headers.
cmake --install "$WEFT_BINARY_DIR" --prefix "$here/prefix" >log 2>&1 || fault "cmake --install: $(cat log)"
[ "$("$here/prefix/bin/weft-tokenize" --version)" = "weft-tokenize of Weft $version" ] || fault "it isn't installed as bin/weft-tokenize"

echo "$faults faults"
[ $faults = 0 ]
