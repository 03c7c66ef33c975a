#!/usr/bin/env bash
# The kernels that docs/cuda.md goes through compute what they should, and ask for what its table says.
set -euo pipefail
tests=$WEFT_BINARY_DIR/tests page=$WEFT_SOURCE_DIR/docs/cuda.md
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! [ -e "$tests/device_runtime/libcudart.so.13" ]; then
  echo "skipped: there is no nvcc of CUDA 13 here, whose code would be run"
  exit 77
fi
said=$(bash "$WEFT_SOURCE_DIR/tests/device/run.sh" "$tests/device_runtime" --counts "$tests/example_own_kernel" 2>&1) || { echo "$said"; exit 1; }
echo "$said"
[ "$(grep -c ': right$' <<<"$said")" = 4 ]
if ! "$nvcc" --version | grep -q 'release 13\.0'; then
  echo "the page's table is of nvcc 13.0; this one counts its instructions otherwise"
  exit 0
fi
rows() { grep '^| own::' | tr -s ' ' | sort; }
diff <(rows <<<"$said") <(rows <"$page") || { echo "docs/cuda.md has the second; what was counted is the first"; exit 1; }
