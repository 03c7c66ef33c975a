#!/usr/bin/env bash
# examples/run.sh [OPTIONS OF train_llama]: installs what is missing (Debian; as root or with sudo), builds
# examples/*train_llama.cpp and runs it with the options given, --data FILE among them (--help lists them all).
# --backend cuda: on a GPU, which the ranks share; by nvcc, which has to be there, for the GPU that is found.
# Where no --data or --config names a text it trains on build/corpus.txt: this repository's headers and documentation and the system's licences.
# What it says itself goes to stderr, with a sign of life every 10 seconds (WEFT_SIGN_SECONDS) while it builds, so that stdout
# is the program's: ./examples/run.sh --print-config > config.json
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# What is to be built is known before anything is installed.
refuse() { echo "run.sh: $1" >&2; exit 2; }
backends=() before=''
for argument in "$@"; do
  [ "$before" != --backend ] || backends+=("$argument")
  case $argument in --backend=*) backends+=("${argument#*=}") ;; esac
  before=$argument
done
[ "$before" != --backend ] || refuse "--backend takes what computes: cpu or cuda"
[ "${#backends[@]}" -le 1 ] || refuse "--backend is given ${#backends[@]} times; leave one of them"
backend=${backends[0]-cpu}
case $backend in cpu | cuda) ;; *) refuse "there is no backend called '$backend'; there are cpu and cuda" ;; esac
program=train_llama
options=(-DWEFT_CUDA=OFF)
if [ "$backend" = cuda ]; then
  program=train_llama_cuda
  nvcc=$(command -v "${CUDACXX:-nvcc}" || command -v /usr/local/cuda/bin/nvcc) ||
    refuse "--backend cuda takes nvcc, of NVIDIA's CUDA Toolkit, which is not in PATH or /usr/local/cuda/bin; or set CUDACXX"
  # nvidia-smi says what is wrong on stdout, too.
  architecture=${CUDAARCHS:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)[.]\([0-9]\)$/\1\2/p;q' || true)}
  [ -n "$architecture" ] || refuse "--backend cuda: there is no NVIDIA GPU here, or no driver for it (nvidia-smi); CUDAARCHS=90 builds for one"
  [[ $architecture =~ ^([0-9]+)[a-z]?$ && ${BASH_REMATCH[1]} -ge 80 ]] ||
    refuse "--backend cuda takes a GPU of compute capability 8.0 or later; CUDAARCHS, or else nvidia-smi, says '$architecture', where 80 or 90 would be one"
  [ "$architecture" != 90 ] || architecture=90a  # whose attention is wgmma's
  options=(-DWEFT_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCMAKE_CUDA_ARCHITECTURES=$architecture")
fi

source "$root/tests/check/install.sh"
need g++ g++
need cmake cmake
need ninja ninja-build
need flock util-linux
need /usr/include/CLI/CLI.hpp libcli11-dev
need /usr/include/nlohmann/json.hpp nlohmann-json3-dev
install_missing >&2

# Several may run at once: one builds while the others wait, and a corpus appears whole, by a rename.
build="$root/build/example"
[ "$backend" != cuda ] || build+=_cuda
mkdir -p "$build"
log="$build/build.log"
exec 9>"$build/lock"
if ! flock -n 9; then
  echo "== waiting for another run.sh that is building" >&2
  flock 9
fi
echo "== building $program (minutes the first time; the log is $log)" >&2
: >"$log"
while sleep "${WEFT_SIGN_SECONDS:-10}" >/dev/null 2>&1; do
  echo "== still building, $SECONDS s: $(tail -n 1 "$log" | cut -c1-60)" >&2
done </dev/null >/dev/null 9>&- &
signs=$!
trap 'kill $signs 2>/dev/null || true' EXIT
if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DWEFT_BUILD_TESTS=OFF \
  -DWEFT_BUILD_BENCH=OFF "${options[@]}" && cmake --build "$build" --target $program -j "$(nproc)"; } 2>&1 |
  tee "$log" | { grep --line-buffered '^\[[0-9]*/[0-9]*\]' || true; } >&2; then
  cat "$log" >&2
  exit 1
fi
kill $signs 2>/dev/null || true
trap - EXIT
exec 9>&-

own=no
for argument in "$@"; do
  case $argument in --data | --data=*) own=yes ;; esac
done
if [ $own = no ]; then
  part=$(mktemp "$root/build/corpus.txt.XXXXXX")
  trap 'rm -f "$part"' EXIT
  {
    (cd "$root" && find include README.md docs -type f \( -name '*.hpp' -o -name '*.inl' -o -name '*.cuh' -o -name '*.md' \) \
      2>/dev/null || true) | LC_ALL=C sort | sed "s|^|$root/|"
    find /usr/share/common-licenses -type f 2>/dev/null | LC_ALL=C sort  # files only: the links repeat them
  } | xargs -d '\n' cat >"$part"
  chmod 644 "$part"
  mv "$part" "$root/build/corpus.txt"
fi

# A text that --data or a --config file names comes first.
TRAIN_LLAMA_DATA="$root/build/corpus.txt" exec "$build/examples/$program" "$@"
