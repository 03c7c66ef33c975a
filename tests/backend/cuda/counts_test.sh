#!/usr/bin/env bash
# What the CUDA kernels ask of memory, counted on the device on the host: sectors and wavefronts are at most 1.1 and 1.2 times the least
# that each request could take, but for what stands below with its reason; every kernel is counted, and moves as many bytes as its header says. Where all is asked for: minutes of nvcc.
set -euo pipefail
tests=$WEFT_BINARY_DIR/tests
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! [ -e "$tests/device_runtime/libcudart.so.13" ]; then
  echo "skipped: there is no nvcc of CUDA 13 here, whose code would be run"
  exit 77
elif [ "${WEFT_TEST_ALL:-}" != yes ]; then
  echo "skipped: it is run where all is asked for (tests/run.sh --all)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
WEFT_COUNTS=$work/said bash "$WEFT_SOURCE_DIR/tests/backend/cuda/kernel_table.sh" "$WEFT_BINARY_DIR" >"$work/page"
cat "$work/page"
awk -F'|' '
  # KERNEL LOADED STORED WAVEFRONTS: the most, over the least.
  function may(kernel, loaded, stored, wavefronts) { most[kernel] = loaded " " stored " " wavefronts }
  function over(part, limit, what,    two) {
    split(part, two, "/")
    if (two[1] + 0 > limit * (two[2] + 0) * 1.0001) {
      print name ": " what " are " two[1] "/" two[2] ", more than " limit " times the least"
      faults++
    }
  }
  BEGIN {
    # Of the 256 scales of NF4, any that a block of codes asks for.
    may("dequantise_kernel", 1.2, 1.1, 1.2)
    # Keys of tokens that a text has already: anywhere in their rows.
    may("penalise_kernel", 4, 4, 1.2)
  }
  / sectors loaded / || /cub::/ { next }                  # the library that sorts keys is as it is
  NF == 12 && $3 + 0 > 0 {
    name = $2; gsub(/ /, "", name); kernels++
    limits = "1.1 1.1 1.2"
    for (kernel in most) if (index(name, kernel) == 1) limits = most[kernel]
    split(limits, limit, " ")
    over($8, limit[1], "sectors loaded"); over($9, limit[2], "sectors stored"); over($10, limit[3], "wavefronts")
  }
  END {
    print kernels " kernels, " faults + 0 " faults"
    if (kernels < 30) { print "there should be at least 30 of them"; faults++ }
    exit faults > 0
  }' "$work/said"
bash "$WEFT_SOURCE_DIR/tests/backend/cuda/claims.sh" "$work/said"
# Those of a program's own functions can't be started here.
for kernel in $(grep -rhoE 'struct [a-z0-9_]+_kernel\b' "$WEFT_SOURCE_DIR/include/weft/backend/cuda/kernels" | sed 's/struct //' | sort -u); do
  case $kernel in each_element_kernel | once_kernel) continue ;; esac
  grep -q "^| \`$kernel[<\`]" "$work/page" || { echo "$kernel is counted nowhere: start it in tests/backend/cuda/counts_report.cu"; exit 1; }
done
if ! "$nvcc" --version | grep -q 'release 13\.0'; then
  echo "docs/cuda_kernels.md is of nvcc 13.0; this one counts its instructions otherwise"
elif ! diff "$work/page" "$WEFT_SOURCE_DIR/docs/cuda_kernels.md"; then
  echo "docs/cuda_kernels.md has the second; what was counted is the first: tests/backend/cuda/kernel_table.sh build/release >docs/cuda_kernels.md"
  exit 1
fi
