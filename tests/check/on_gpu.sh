#!/usr/bin/env bash
# on_gpu.sh COMMAND...: runs it where there is an NVIDIA GPU, else says so and exits with 77 (ctest: skipped).
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  echo "skipped: no NVIDIA GPU (/dev/nvidia0) on this machine"
  exit 77
fi
exec "$@"
