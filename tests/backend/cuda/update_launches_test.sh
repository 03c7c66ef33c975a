#!/usr/bin/env bash
# A step of AdamW is one kernel for a unit's tensors, whether they decay or not, and with moments in bf16 too: three steps over a unit of six, counted on
# the device on the host.
set -euo pipefail
tests=$WEFT_BINARY_DIR/tests
if ! [ -e "$tests/device_runtime/libcudart.so.13" ]; then
  echo "skipped: there is no nvcc of CUDA 13 here, whose code would be run"
  exit 77
fi
said=$(bash "$WEFT_SOURCE_DIR/tests/device/run.sh" "$tests/device_runtime" --counts "$tests/test_backend_cuda" \
  "--test-case=AdamW over a unit*" 2>&1) || { echo "$said"; exit 1; }
echo "$said"
for kernel in adamw_kernel adamw_rounded_kernel; do
  launches=$(awk -F'|' -v kernel="^ $kernel<" '$2 ~ kernel { n += $3 } END { print n + 0 }' <<<"$said")
  [ "$launches" = 3 ] || { echo "three steps over one unit take $launches launches of $kernel, not 3"; exit 1; }
done
