#!/usr/bin/env bash
# cudnn_frontend.sh: prints the folder whose include/ has cudnn_frontend.h, for CUDNN_FRONTEND_ROOT: that of the variable, where it is set, or one
# below ${XDG_CACHE_HOME:-~/.cache}/weft, which every checkout uses; NVIDIA's headers are fetched there from PyPI, once, where there is a CUDA
# toolkit. Where there is none, and where pip fails, it prints nothing, and the exit code is 77: CMake says what it lacks.
set -uo pipefail
version=1.18.0
if [ -n "${CUDNN_FRONTEND_ROOT:-}" ]; then echo "$CUDNN_FRONTEND_ROOT"; exit; fi
place=${XDG_CACHE_HOME:-$HOME/.cache}/weft/cudnn-frontend-$version
if ! [ -e "$place/include/cudnn_frontend.h" ]; then
  { command -v nvcc || [ -e /usr/local/cuda/bin/nvcc ]; } >/dev/null || exit 77
  mkdir -p "$(dirname "$place")" && work=$(mktemp -d "$place.XXXXXX") || exit 77
  trap 'rm -rf "$work"' EXIT
  # A wheel of any Python: its headers alone are taken.
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 -d "$work" "nvidia-cudnn-frontend==$version" >&2 || exit 77
  python3 - "$work" <<'PYTHON' || exit 77
import glob, sys, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
wheel.extractall(sys.argv[1], [name for name in wheel.namelist() if name.startswith("include/")])
PYTHON
  rm -f "$work"/*.whl
  mv -T "$work" "$place" 2>/dev/null || [ -e "$place/include/cudnn_frontend.h" ] || exit 77
fi
echo "$place"
