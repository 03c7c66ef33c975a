#!/usr/bin/env bash
# What the CUDA kernels ask of memory, counted on the device on the host: sectors and wavefronts are at most 1.1 and 1.2 times the least
# that the bytes of each request could take, but for what stands below with its reason. Where all is asked for: a minute of nvcc.
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
    may("rope_kernel", 1.4, 1.1, 1.2)                     # a lane reads 32 bytes of angles in two requests
    may("attention_delta_kernel", 1.1, 2.1, 1.2)          # a warp writes four numbers
    may("attention_warpgroup_kernel", 1.1, 2.3, 1.2)      # the lanes of a row have 16 bytes of it at a time
    may("attention_warpgroup_queries", 1.1, 2.3, 1.2)
    may("attention_warpgroup_keys", 1.1, 2.3, 2.1)        # and eight rows of lanes read the same 8 bytes of two queries
    # in arithmetic of single numbers, where the tensor cores have no kernel: cells of a tile lie rows apart
    may("attention_kernel", 1.1, 1.1, 2.8); may("attention_keys", 1.1, 1.1, 2.9); may("attention_queries", 1.1, 1.1, 2.9)
    may("row_max_kernel", 1.1, 1.1, 3.1)                  # few numbers: what warps have of a row is joined by lanes of all
    may("row_sums_kernel", 1.1, 1.1, 3.1)
    may("row_loss_kernel", 1.1, 1.1, 3.5)
    may("squares_kernel", 1.1, 1.1, 3.5)
    may("sum_squares_kernel", 1.1, 1.1, 3.5)
    may("largest_magnitude_kernel", 1.1, 1.1, 3.1); may("float8_codes_kernel", 1.1, 1.1, 3.1)
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
if ! "$nvcc" --version | grep -q 'release 13\.0'; then
  echo "docs/cuda_kernels.md is of nvcc 13.0; this one counts its instructions otherwise"
elif ! diff "$work/page" "$WEFT_SOURCE_DIR/docs/cuda_kernels.md"; then
  echo "docs/cuda_kernels.md has the second; what was counted is the first: tests/backend/cuda/kernel_table.sh build/release >docs/cuda_kernels.md"
  exit 1
fi
