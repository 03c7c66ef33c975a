#!/usr/bin/env bash
# Whether the device on the host notices what its users would leave out: each barrier, and each wait for copies, of the kernels that the
# laws of norms launch is left out, one at a time; then the program has to fail, or the device to find something. survivors.txt has those
# that don't, each with its reason; one that isn't there fails this test, as does one there that is noticed now. Only with --all.
set -euo pipefail
tests=$WEFT_BINARY_DIR/tests
if [ "${WEFT_TEST_ALL:-}" != yes ]; then
  echo "skipped: it takes minutes; WEFT_TEST_ALL=yes runs it"
  exit 77
fi
if ! [ -e "$tests/device_runtime/libcudart.so.13" ]; then
  echo "skipped: there is no nvcc here, whose code would be changed"
  exit 77
fi
here=$WEFT_SOURCE_DIR/tests/device
program=${WEFT_DEVICE_PROGRAM:-$tests/test_backend_cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
left=0 noticed=0 bad=0

# judge PROGRAM ARGUMENT...: leaves out each wait of what it launches.
judge() {
  WEFT_DEVICE_WAITS=1 bash "$here/run.sh" "$tests/device_runtime" "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  sed -n 's/^waits: //p' "$work/log" >"$work/waits"
  local count kernel n reason
  while read -r count kernel; do
    for ((n = 0; n < count; n++)); do
      left=$((left + 1))
      reason=$(grep -F "$kernel:$n " "$here/survivors.txt" || true)
      if WEFT_DEVICE_LEAVE_OUT="$kernel:$n" timeout 300 bash "$here/run.sh" "$tests/device_runtime" "$@" </dev/null >"$work/log" 2>&1; then
        [ -n "$reason" ] && continue
        echo "nobody notices that wait $n is left out of $kernel"
        bad=1
      else
        noticed=$((noticed + 1))
        [ -z "$reason" ] || { echo "wait $n of $kernel is noticed now, so it is no survivor"; bad=1; }
      fi
    done
  done <"$work/waits"
}

judge "$program" "--test-case=laws of RMSNorm and LayerNorm<weft::bf16>"
echo "$left waits left out, $noticed noticed"
[ "$noticed" -gt 0 ] && exit $bad
