#!/usr/bin/env bash
# published.sh RUNTIME: prints the part of docs/cuda_kernels.md that sets the least times of attention, the norms and cross-entropy beside the best
# that are published, at their sizes. RUNTIME: the folder of the device on the host's libraries. A kernel is counted at small sizes, through which
# a line in the size, of attention a parabola, goes on to the published one; one more size has to lie on it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$(realpath "$(dirname "$nvcc")/../lib64" 2>/dev/null || realpath "$(dirname "$nvcc")/../lib")
compile() { # PROGRAM ARCHITECTURE
  "$nvcc" -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 --no-compress -cudart shared -gencode "arch=compute_$2,code=[compute_$2,sm_$2]" \
    -I "$root/include" -o "$work/$1" "$root/tests/backend/cuda/published_report.cu" -L "$libraries" -Xlinker "-rpath=$libraries" -lcublasLt
}
compile program 90
compile wgmma 90a
for of in attention:512 attention:768 attention:1024 attention:1280 wgmma:512 wgmma:768 wgmma:1024 wgmma:1280 norms:512 norms:1024 norms:768 loss:8 loss:24 loss:16; do
  task=${of%:*} size=${of#*:} program=program
  [ "$task" != wgmma ] || program=wgmma
  bash "$root/tests/device/run.sh" "$1" --counts "$work/$program" "${task/wgmma/attention}" "$size" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
  # TASK|SIZE|KERNEL|INSTRUCTIONS|TENSOR CORES|WAVEFRONTS|BYTES of a launch
  awk -F'|' -v task="$task" -v size="$size" 'NF == 12 && $3 + 0 > 0 {
    for (i = 2; i <= NF; i++) gsub(/ /, "", $i)
    split($10, wavefronts, "/"); print task "|" size "|" task ":" $2 "|" $6 / $3 "|" $7 / $3 "|" wavefronts[1] / $3 "|" $11 / $3 }' "$work/said" >>"$work/counts"
done
cat <<'TEXT'

## Beside published times

`tests/backend/cuda/published.sh build/release/tests/device_runtime`, a part of the command above, counts the kernels of a task at small sizes and goes on to the
published one by a line in the size, of attention a parabola, on which one more count lies within half a per cent. *At most* is the speed of that least time; of several kernels the times add up.
*To reach it* is what would have to hold: the part of *at most* that has to be reached; or, where *at most* is less, what has to become of the counts that set it.

Attention is causal, with heads of 128 numbers, in `bf16`; its operations are 2 (forward) and 5 (backward) times tokens² times 128 a head. Norms are of 16,384 rows of 4,096 numbers in
`bf16`, and move 2 arrays (forward) or 3 (backward). The loss is that of 8,192 tokens over 256,000 words from a hidden width of 2,304, forward and backward: four products, at the data
sheet's 312 TFLOP/s of an A100, and the passes over the logits in chunks, of which those of the forward are made twice, at its 2.04 TB/s. Published are cuDNN 9.19 on an H200,
FlashAttention-2 (Dao 2023) on an H100, and cut cross-entropy (Wijmans et al. 2025) on an A100, which leaves gradients too small for `bf16` out of its products.

*Tensor* counts an `mma.sync` a clock, the rate of the data sheet. That a Hopper gives it that rate is not known here: FlashAttention-2, whose 370 TFLOP/s are the best published with
`mma.sync`, stays far below, and what is faster takes `wgmma`, whose operands come out of shared memory without a load of their own. The backward by `mma.sync` is set by shared memory: its
two kernels read their tiles in fragments of 16 x 16. By either word it makes seven products where five would do. *By wgmma* are the kernels for sm_90a. What `wgmma` reads of shared
memory isn't counted; by the sizes of their tiles (64 rows, of 128, 64 and 128 others) it is, at 128 bytes a clock, 63 % (forward), 75 % (dk and dv) and 67 % (dq) of the products' time.

| task | on | published | at most | set by | to reach it |
|---|---|---|---|---|---|
TEXT
awk -F'|' '
  function at(key, what, size,    i, j, y, sum, points) {
    points = number[task_of[key]] - 1
    for (i = 1; i <= points; i++) {
      y = counts[key, sizes[task_of[key], i], what]
      for (j = 1; j <= points; j++) if (i != j) y *= (size - sizes[task_of[key], j]) / (sizes[task_of[key], i] - sizes[task_of[key], j])
      sum += y
    }
    return sum
  }
  # ns of the kernels that match, added up, `count` of each; what sets the longest of them is left in `by`.
  function least(task, match_, size, count, gpu,    key, t, w, best, longest, ns) {
    longest = 0
    for (key in task_of) if (task_of[key] == task && key ~ match_) {
      t["issue"] = at(key, 4, size) / 528 / 1.83; t["tensor"] = at(key, 5, size) / 132 / 1.83
      t["shared"] = at(key, 6, size) / 132 / 1.83; t["memory"] = at(key, 7, size) / bandwidth[gpu]
      best = "memory"
      for (w in t) if (t[w] > t[best]) best = w
      ns += t[best]
      if (t[best] > longest) { longest = t[best]; by = best }
    }
    if (ns <= 0) { print "published.sh: no counts of " match_ >"/dev/stderr"; failed = 1 }
    return ns * count
  }
  function row(name, gpu, published, limit, unit) {
    printf "| %s | %s | %s %s | %s %s | %s | %s |\n", name, gpu, published, unit, sprintf(unit == "TFLOP/s" ? "%.0f" : "%.2f", limit), unit, by,
      reached(published / limit)
  }
  function reached(part) { return part <= 1 ? sprintf("%.0f %% of at most", 100 * part) : sprintf("%.0f %% less of it", 100 * (1 - 1 / part)) }
  function attention(task, seq, gpu, forward, backward) {
    row("attention" (task == "wgmma" ? " by wgmma" : "") ", " seq " tokens", gpu, forward,
      2 * seq * seq * 128 / least(task, "attention_(tensor|warpgroup)_kernel", seq, 1, gpu) / 1000, "TFLOP/s")
    row("its backward", gpu, backward, 5 * seq * seq * 128 / least(task, "backward|delta", seq, 1, gpu) / 1000, "TFLOP/s")
  }
  { if (!(($1, $2) in seen)) { seen[$1, $2]; sizes[$1, ++number[$1]] = $2 }
    task_of[$3] = $1; for (i = 4; i <= 7; i++) counts[$3, $2, i] = $i }
  END {
    bandwidth["H100"] = 3350; bandwidth["H200"] = 4800; bandwidth["A100"] = 2039
    for (key in task_of) for (i = 4; i <= 7; i++) {
      last = sizes[task_of[key], number[task_of[key]]]; counted = counts[key, last, i]; guess = at(key, i, last)
      if (counted > 10000 && (guess - counted) ^ 2 > (0.005 * counted) ^ 2 && key !~ /delta|sum_parts/) {  # these two: a part in a hundred of the time
        print "published.sh: " key ": count " i " is " counted ", and " guess " by the others" >"/dev/stderr"; failed = 1
      }
    }
    tasks = split("attention wgmma", task, " ")
    for (t = 1; t <= tasks; t++) {
      attention(task[t], 2048, "H200", 484, 370); attention(task[t], 4096, "H200", 591, 474)
      attention(task[t], 8192, "H200", 644, 541); attention(task[t], 16384, "H200", 673, 579)
    }
    attention("attention", 8192, "H100", 370, 322)
    array = 16384 * 4096 * 2
    row("RMSNorm", "H200", 3.71, 2 * array / least("norms", "norms:norm_tile_kernel<bf16,false,false>", 16384, 1, "H200") / 1000, "TB/s")
    row("its backward", "H200", "3.80", 3 * array / least("norms", "norms:norm_tile_backward_kernel<bf16,false>|sum_parts", 16384, 1, "H200") / 1000, "TB/s")
    products = 4 * 2 * 8192 * 2304 * 256000 / 312e12 * 1e3
    for (key in task_of) if (task_of[key] == "loss") passes += at(key, 7, 8192) * (key ~ /backward/ ? 1 : 2) / bandwidth["A100"] / 1e6
    printf "| linear layer and cross-entropy | A100 | 135 ms | %.0f ms (%.0f of products, %.0f of passes) | tensor | %s |\n", products + passes, products, passes,
      reached((products + passes) / 135)
    exit failed
  }' "$work/counts"
