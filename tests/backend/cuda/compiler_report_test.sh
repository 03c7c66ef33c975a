#!/usr/bin/env bash
# What nvcc reports of the CUDA kernels, without a GPU: they compile and link for sm_80, sm_90 and sm_90a; no register is spilled, no kernel uses more than 64 registers (so that 4
# blocks of 256 threads share a multiprocessor of sm_90) but those that hold rows (255), and the fused kernels load and store 16 bytes at a time.
set -euo pipefail
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! [ -x "$nvcc" ]; then
  echo "skipped: no nvcc in PATH or /usr/local/cuda/bin"
  exit 77
fi
root=${WEFT_SOURCE_DIR:-$(cd "$(dirname "$0")/../../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A GPU that is older than its kernels is refused before they are compiled.
echo '#include <weft/backend/cuda/launch.cuh>' >"$work/old.cu"
if "$nvcc" -std=c++20 -arch=sm_75 -I "$root/include" -E "$work/old.cu" >/dev/null 2>"$work/old" || ! grep -q 'error weft: kernels are for compute capability 8.0 and later' "$work/old"; then
  echo "compiled for sm_75, launch.cuh says: $(cat "$work/old")"
  exit 1
fi

# For two architectures. --keep leaves the PTX that the machine code was made of.
for source in kernels_report attention_report; do
  "$nvcc" -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -O2 -c -gencode arch=compute_80,code=sm_80 \
    -gencode arch=compute_90,code=sm_90 -Xptxas -v --keep --keep-dir "$work" -I "$root/include" -o "$work/$source.o" "$root/tests/backend/cuda/$source.cu" >>"$work/report" 2>&1 || { cat "$work/report"; exit 1; }
done
"$nvcc" -std=c++20 --expt-relaxed-constexpr --extended-lambda -diag-suppress=3001 -O2 -c -gencode arch=compute_90a,code=sm_90a -Xptxas -v \
  -I "$root/include" -o "$work/warpgroup.o" "$root/tests/backend/cuda/attention_warpgroup_report.cu" >"$work/warpgroups" 2>&1 || { cat "$work/warpgroups"; exit 1; }
cat "$work/warpgroups" >>"$work/report"
if [ "$(grep -c ' 0 bytes spill stores' "$work/warpgroups")/$(grep -c 'Used 168 registers' "$work/warpgroups")" != 24/24 ] || grep -i serialized "$work/warpgroups"; then
  cat "$work/warpgroups"
  echo "each of twenty-four kernels for sm_90a should have 168 registers and spill none"
  exit 1
fi
echo 'int main() {}' >"$work/main.cpp"
"$nvcc" "$work"/{kernels_report,attention_report,warpgroup}.o "$work/main.cpp" -o "$work/program" >>"$work/report" 2>&1 || { cat "$work/report"; exit 1; }
if grep -E 'warning|error' "$work/report"; then
  echo "nvcc warns of the kernels"
  exit 1
fi

# Lines in pairs of interest: "Compiling entry function 'NAME'", "S bytes stack frame, N bytes spill stores, ...", "Used R registers, ...".
awk '
  /Compiling entry function/ { split($0, part, "\047"); name = part[2]; kernels++ }
  /spill stores/ {
    for (i = 2; i <= NF; i++)
      if ($i == "spill" && $(i - 2) + 0 > 0) {
        print name ": " $0
        faults++
        break
      }
  }
  /Used [0-9]+ registers/ {
    for (i = 1; i < NF; i++) if ($i == "Used") used = $(i + 1)
    if (used > most) { most = used; greediest = name }
    if (used > (name ~ /attention_|norm_tile|softmax_tile/ ? 255 : 64)) { print name ": uses " used " registers"; faults++ }
  }
  END {
    print kernels " kernels, at most " most " registers (" greediest ")"
    if (kernels < 388) { print "there should be at least 388 kernels in the report"; faults++ }
    exit faults > 0
  }
' "$work/report"

# In the PTX of each fused kernel: 16-byte loads and stores.
awk '
  /^\.visible \.entry|^\t?\.weak \.entry|\.entry/ { match($0, /_Z[A-Za-z0-9_]+/); name = substr($0, RSTART, RLENGTH) }
  /ld\.global[.a-z]*\.v4\.(b32|u32|f32)|ld\.global[.a-z]*\.v2\.(b64|u64|f64)/ { loads[name]++ }
  /st\.global[.a-z]*\.v4\.(b32|u32|f32)|st\.global[.a-z]*\.v2\.(b64|u64|f64)/ { stores[name]++ }
  { if (name != "") seen[name] = 1 }
  END {
    for (name in seen)
      if (name ~ /swiglu|rms_norm/) {
        fused++
        if (!loads[name] || !stores[name]) { print name ": has no 16-byte loads or no 16-byte stores"; faults++ }
      }
    print fused " fused kernels load and store 16 bytes at a time"
    if (fused < 16) { print "there should be at least 16 of them"; faults++ }
    exit faults > 0
  }
' "$work"/*.ptx
