#!/usr/bin/env bash
# docs/cuda.md lists the calls of the run-time that the device on the host knows; a program that makes another one, or that has the run-time within it, is told what to do.
set -euo pipefail
runtime=$WEFT_BINARY_DIR/tests/device_runtime
if ! [ -e "$runtime/libcudart.so.13" ]; then
  echo "skipped: there is no nvcc of CUDA 13 here, whose code would be run"
  exit 77
fi
known() { nm -D --defined-only "$runtime/libcudart.so.13" | sed -n 's/.* T \(cuda[A-Z][A-Za-z]*\).*/\1/p' | sort -u; }
listed() { sed -n '/^Of the run-time: /,/^$/p' "$WEFT_SOURCE_DIR/docs/cuda.md" | grep -o 'cuda[A-Z][A-Za-z]*' | sort; }
diff <(listed) <(known) || { echo "docs/cuda.md lists the first; the device knows the second"; exit 1; }

# says SENTENCE WORDS...: what run.sh makes of a program that ends with these words.
says() {
  local said
  said=$(bash "$WEFT_SOURCE_DIR/tests/device/run.sh" "$runtime" bash -c 'echo "$1" >&2; exit 127' it "${*:2}" 2>&1) && { echo "run.sh takes a program that ends with: ${*:2}"; exit 1; }
  grep -qF -- "$1" <<<"$said" || { echo "of '${*:2}' run.sh says: $said"; exit 1; }
}
says "it doesn't know cudaStreamCreate: docs/cuda.md lists" './it: symbol lookup error: ./it: undefined symbol: cudaStreamCreate, version libcudart.so.13'
says 'link it with nvcc -cudart shared' 'CUDA driver version is insufficient for CUDA runtime version'
