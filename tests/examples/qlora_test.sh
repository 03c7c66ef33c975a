#!/usr/bin/env bash
# examples/qlora.sh: adapters learn, quantising costs little, the run that goes on on one rank is the run that never ended, and the folder that
# is written is the model that was trained. (tests/pretrained/peer_qlora_test.sh has transformers read it.)
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" qlora

PYTHON=none QLORA="$program" bash "$WEFT_SOURCE_DIR/examples/qlora.sh" run >out 2>err || fault "it fails: $(cat out err)"
cat out
grep -q '^== skipped: none has no transformers' out || fault 'it does not say that transformers is not asked'
# Held-out losses: of the model, in 4 bits, after 60 steps, read from the checkpoint, after 120, of the merged folder.
read -r base few_bits half resumed end tuned < <(sed -n 's/^[a-z ,]*: \([0-9.]*\)$/\1/p' out | paste -sd ' ')
# near A B DISTANCE, less A B
near() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN { exit !(a != "" && b != "" && (a > b ? a - b : b - a) <= d) }' || fault "$4: $1 and $2"; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }' || fault "$3: $1, not below $2"; }
less "$base" 4 'the model has learned nothing'  # log 256 is 5.5
near "$base" "$few_bits" 0.05 '4 bits lose too much'
less "$half" "$(awk "BEGIN { print $few_bits - 0.1 }")" '60 steps lower the loss too little'
less "$end" "$(awk "BEGIN { print $half - 0.02 }")" '60 more lower it too little'
# The sums of one rank and two are rounded otherwise, in fp32: 1e-6 was found, and without the moments, or with other text, 1e-2.
near "$half" "$resumed" 1e-5 'the checkpoint has another loss than the run that wrote it'
near "$end" "$tuned" 1e-5 'the merged folder has another loss than the adapters'
mkdir never_ended
ln -s ../run/{base,prose.txt,held_out.txt} never_ended/
(cd never_ended && "$program" tune 2 0 120) >whole 2>err || fault "the run that does not end fails: $(cat err)"
near "$end" "$(sed -n 's/^held out, after it: //p' whole)" 1e-3 'the run that went on is not the one that never ended'

tokenize="$WEFT_BINARY_DIR/examples/weft-tokenize"
if [ -x "$tokenize" ]; then  # 16 bits a token
  "$tokenize" --tokenizer run/tuned --out tokens --no-end run/held_out.txt >out 2>err || fault "the tokenizer: $(cat err)"
  cmp <(od -An -v -tu2 -w2 tokens.bin) <(od -An -v -tu1 -w1 run/held_out.txt | sed 's/^/  /') || fault 'tokens are not bytes'
fi
mkdir there
refused_by() { bash "$WEFT_SOURCE_DIR/examples/qlora.sh" "$@" >out 2>err && fault "$* is taken"; said "give a folder that isn't there yet"; }
QLORA="$program" refused_by there
echo "$faults faults"
[ "$faults" = 0 ]
