#!/usr/bin/env bash
# kernel_table.sh BUILD: prints docs/cuda_kernels.md: what nvcc makes of the CUDA backend's kernels for sm_80 and sm_90 (or sm_90a), what they ask of a device
# (counted on the device on the host, whose libraries lie in BUILD/tests/device_runtime), the least time that this takes on an H100 and an H200, and
# for some the best published time beside it (published.sh).
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
runtime=$(realpath "$1/tests/device_runtime")
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$(realpath "$(dirname "$nvcc")/../lib64" 2>/dev/null || realpath "$(dirname "$nvcc")/../lib")
counted() { # nvcc's arguments...: adds what the assembler says to ptxas, and what the program asks for to counts
  "$nvcc" -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -lineinfo --no-compress -cudart shared -Xptxas -v "$@" \
    -I "$root/include" -o "$work/program" "$root/tests/backend/cuda/counts_report.cu" -L "$libraries" -Xlinker "-rpath=$libraries" -lcublasLt \
    >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
  cat "$work/said" >>"$work/ptxas"
  bash "$root/tests/device/run.sh" "$runtime" --counts "$work/program" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
  cat "$work/said" >>"$work/counts"
}
counted -gencode arch=compute_80,code=sm_80 -gencode "arch=compute_90,code=[compute_90,sm_90]"
counted -gencode "arch=compute_90a,code=[compute_90a,sm_90a]" -DWEFT_FOR_SM_90A

# ARCHITECTURE NAME REGISTERS SPILLED, names as the device on the host has them.
awk '
  /Compiling entry function/ { split($0, part, "\047"); name = part[2]; sm = part[4] }
  /spill stores/ { for (i = 2; i <= NF; i++) if ($i == "spill" && $(i + 1) ~ /^stores/) spilled = $(i - 2) }
  /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used") print sm "|" spilled "|" $(i + 1) "|" name }' "$work/ptxas" | c++filt |
  sed -n 's/run_on_device<\(.*\)>(.*$/\1/; s/^\([^|]*|[^|]*|[^|]*|\)void weft::gpu::/\1/; s/(anonymous namespace):://g; s/weft::gpu:://g; s/weft:://g; s/ *$//; p' >"$work/registers"

cat <<'TEXT'
# The CUDA kernels, counted

What `nvcc` makes of each kernel that `tests/backend/cuda/counts_report.cu` starts, in `bf16` at small sizes, and what it asks of a device. Written by
`tests/backend/cuda/kernel_table.sh build/release`; `./tests/run.sh --all` holds the page to it, and each kernel to the limits that `tests/backend/cuda/counts_test.sh` names.

| column | of what |
|---|---|
| block | threads, and bytes of shared memory |
| registers | of a thread, for sm_80 and for sm_90, or for sm_90a alone; and bytes that are spilled, where any are |
| occupancy | threads that a multiprocessor then holds, of the 2,048 that it could: what registers, shared memory (164 KiB and 228 KiB) and blocks (32) leave |
| sectors | of 32 bytes that requests take, over the least that their different bytes could take |
| wavefronts | of shared memory, over the least: 128 bytes each, and a register of each lane; what TMA writes and `wgmma` reads isn't counted |
| tensor cores | `mma.sync`, of all instructions; a `wgmma` counts as those that it does as much as |
| bytes | sectors read and sectors written by a launch, each once: what has to come from memory and go to it; the head of its header says it by sizes, with FLOPs |
| H100, H200 | the least time in ns, and what sets it |

**The least time is no time.** It is the largest of four: *memory*, the bytes at 3.35 TB/s (H100 SXM) or 4.8 TB/s (H200); *shared*, a wavefront a clock on each of 132
multiprocessors; *tensor*, an `mma.sync` (16 x 8 x 16, 4,096 operations) a clock on each; *issue*, four instructions a clock on each, at 1.83 GHz, at which these are the
989 TFLOP/s of NVIDIA's data sheet. Instructions are PTX's, of which a GPU runs others, in number alike. A launch takes some microseconds beside, at sizes as these far more than
all of it; what a larger one takes has the same limit for as long as its shape does. No GPU has been asked.

| kernel | block | registers | occupancy | sectors | wavefronts | tensor cores | bytes | H100 | H200 |
|---|---|---|---|---|---|---|---|---|---|
TEXT
awk -F'|' '
  function floor_of(x) { return int(x + 1e-9) }
  function least(a, b) { return a < b ? a : b }
  function occupancy(registers, threads, shared, most_shared,    warps, by_registers, blocks) {
    warps = int((threads + 31) / 32)
    by_registers = floor_of(65536 / (int((registers * 32 + 255) / 256) * 256))
    by_registers = int(by_registers / 4) * 4
    blocks = least(least(32, floor_of(64 / warps)), floor_of(by_registers / warps))
    blocks = least(blocks, floor_of(most_shared / (shared + 1024)))
    return int(100 * blocks * warps / 64 + 0.5) " %"
  }
  function over(pair,    two) { split(pair, two, "/"); return two[2] + 0 ? sprintf("%.2f", two[1] / two[2]) : "-" }
  function first(pair,    two) { split(pair, two, "/"); return two[1] + 0 }
  function bound(bandwidth,    by, t, best) {
    t["memory"] = bytes / bandwidth
    t["shared"] = first($9) / 132 / 1.83; t["tensor"] = $6 / 132 / 1.83; t["issue"] = $5 / 528 / 1.83
    best = "memory"
    for (by in t) if (t[by] > t[best]) best = by
    return sprintf("%.0f", t[best] / $2) ", " best
  }
  FNR == NR { registers[$1, $4] = $3; spilled[$1, $4] = $2; next }
  NF == 12 && $3 + 0 > 0 && $2 !~ /cub::/ {
    name = $2; sub(/^ */, "", name); sub(/ *$/, "", name)
    if (name in listed) next  # both programs start it
    listed[name]
    for (i = 3; i <= NF; i++) gsub(/ /, "", $i)
    $2 = $3; $3 = $4; $4 = $5  # launches, threads, shared
    $5 = $6; $6 = $7; loads = $8; stores = $9; $9 = $10; bytes = $11
    split(loads, l, "/"); split(stores, s, "/")
    a = registers["sm_80", name]; b = registers["sm_90", name]; c = registers["sm_90a", name]
    if (name ~ /warpgroup/ ? c == "" : a == "" || b == "") { print "kernel_table.sh: no registers of " name >"/dev/stderr"; bad = 1 }
    spills = spilled["sm_80", name] + 0 || spilled["sm_90", name] + 0 ? " (" spilled["sm_80", name] ", " spilled["sm_90", name] ")" : ""
    held = name ~ /warpgroup/ ? c " | " occupancy(c, $3, $4, 233472) : a ", " b spills " | " occupancy(a, $3, $4, 167936) ", " occupancy(b, $3, $4, 233472)
    printf "| `%s` | %d, %d | %s | %s | %s | %s | %d | %s | %s |\n", name, $3, $4, held,
      sprintf("%.2f", (l[1] + s[1]) / (l[2] + s[2])), over($9),
      ($6 + 0 ? sprintf("%.1f %%", 100 * $6 / $5) : "-"), bytes / $2, bound(3350), bound(4800) | "LC_ALL=C sort"
    kernels++
  }
  END { close("LC_ALL=C sort"); if (kernels < 30) { print "kernel_table.sh: there should be at least 30 kernels" >"/dev/stderr"; bad = 1 } exit bad }' "$work/registers" "$work/counts"
bash "$root/tests/backend/cuda/published.sh" "$runtime"
[ -z "${WEFT_COUNTS:-}" ] || cp "$work/counts" "$WEFT_COUNTS"
