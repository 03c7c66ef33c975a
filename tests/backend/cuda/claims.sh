#!/usr/bin/env bash
# claims.sh COUNTS: whether the kernels of counts_report.cu move as many bytes as the heads of their headers say, by what kernel_table.sh has counted
# (WEFT_COUNTS): within 1 %, or a sector.
set -euo pipefail
kernels=${WEFT_SOURCE_DIR:-$(cd "$(dirname "$0")/../../.." && pwd)}/include/weft/backend/cuda/kernels
# What counts_report.cu gives: of all, then of those whose names begin so.
sizes='
. k=l=a=b=c=d=h=i=s=v=m=listed=0; n=65536; r=64; w=1024; p=8; o=w; T=2; A=M=G=4; B=W=2; From=2; To=4
adamw_kernel M=G=4; W=2
attention_delta_kernel n=256*115.2; r=256
attention_kernel n=m=256*32; r=256
attention_keys_backward_kernel n=m=256*32; r=256
attention_queries_backward_kernel n=m=256*32; r=256
attention_tensor n=m=256*D; r=256
attention_warpgroup n=m=256*D; r=256
broadcast_kernel b=w
choose_kernel v=12; r=4
cross_entropy_backward_kernel r=16
dequantise_kernel c=0.75
embedding d=40
fold_kernel n=32768; i=2; o=2
last_kept_kernel v=12; r=4
layer_norm r=2; w=32768; p=2
norm_tile_kernel<bf16,false,false> l=0; a=0
norm_tile_kernel<bf16,false,true> l=0; a=1
norm_tile_kernel<bf16,true,false> l=1; a=0
norm_tile_kernel<bf16,true,true> l=1; a=1
norm_tile_backward_kernel<bf16,false> l=0
norm_tile_backward_kernel<bf16,true> l=1
penalise_kernel p=256; listed=64; r=4
reduce_rows_kernel o=r
rms_norm r=2; w=32768; p=2
rope_kernel h=r*64
row_max_kernel r=16
row_sums_kernel r=16
row_loss_kernel r=16
squares_kernel T=4
strided_matmul_kernel a=32*128; b=64*64; c=32*64
sum_parts_kernel s=(3*8+3*2*32)*1024/6; w=(3+3*32)*1024/6
token_keys_kernel n=4*4096'
grep -rhE '^//   [a-z0-9_]+_kernel: .* bytes, ' "$kernels" | sed -E 's|^//   ([a-z0-9_]+): (.*) bytes, .*|\1=\2|' |
  awk -v sizes="$sizes" -F'|' '
  BEGIN { count = split(sizes, line, "\n"); print "BEGIN {" }
  FNR == NR {  # NAME=EXPRESSION, in which a space multiplies
    name = $0; sub(/=.*/, "", name)
    expression = substr($0, length(name) + 2)
    gsub(/ \+ /, "+", expression); gsub(/ - /, "-", expression); gsub(/ /, "*", expression)
    claim[name] = expression; next
  }
  NF == 12 && $3 + 0 > 0 && $2 !~ /cub::/ {
    name = $2; gsub(/ /, "", name)
    if (name in seen) next
    seen[name]
    base = name; sub(/<.*/, "", base)
    if (!(base in claim)) { print "print \"" base ": the head of its header says no bytes\"; faults++"; next }
    width = name; sub(/^[^0-9]*16,/, "", width)  # bf16, the first number behind it
    print "D = " width + 0 ";"
    for (i = 1; i <= count; i++) {
      key = line[i]; sub(/ .*/, "", key)
      if (key == "." || (key != "" && index(name, key) == 1)) print substr(line[i], length(key) + 2) ";"
    }
    print "want = " claim[base] "; got = " $11 / $3 "; far = got > want ? got - want : want - got; kernels++"
    print "if (far > want / 100 && far > 32) { print \"" name " moves \" got \" bytes, and the head of its header says " claim[base] ", \" want; faults++ }"
  }
  END { print "print kernels \" kernels, \" faults + 0 \" that move other bytes than their heads say\"; exit faults > 0 }" }' - "$1" |
  awk -f /dev/stdin
