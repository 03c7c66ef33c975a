#!/usr/bin/env bash
# examples/run.sh [OPTIONS OF train_llama]: installs what is missing (Debian; as root or with sudo), builds
# examples/*train_llama.cpp and runs it with the options given, --data FILE among them (--help lists them all).
# Without --data it trains on build/corpus.txt: this repository's headers and documentation and the system's licences.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

source "$root/tests/check/install.sh"
need g++ g++
need cmake cmake
need ninja ninja-build
need /usr/include/CLI/CLI.hpp libcli11-dev
install_missing

build="$root/build/example"
mkdir -p "$build"
log="$build/build.log"
echo "== building train_llama"
if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_BENCH=OFF \
  -DWEFT_CUDA=OFF && cmake --build "$build" --target train_llama -j "$(nproc)"; } >"$log" 2>&1; then
  cat "$log"
  exit 1
fi

corpus=("--data" "$root/build/corpus.txt")
for argument in "$@"; do
  case $argument in --data | --data=*) corpus=() ;; esac
done
if [ ${#corpus[@]} != 0 ]; then
  {
    (cd "$root" && find include README.md docs -type f \( -name '*.hpp' -o -name '*.inl' -o -name '*.cuh' -o -name '*.md' \) \
      2>/dev/null || true) | LC_ALL=C sort | sed "s|^|$root/|"
    find /usr/share/common-licenses -type f 2>/dev/null | LC_ALL=C sort  # files only: the links repeat them
  } | xargs -d '\n' cat >"$root/build/corpus.txt"
fi

exec "$build/examples/train_llama" "${corpus[@]}" "$@"
