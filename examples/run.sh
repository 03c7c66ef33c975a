#!/usr/bin/env bash
# examples/run.sh [OPTIONS OF train_llama]: installs what is missing (Debian; as root or with sudo), builds
# examples/*train_llama.cpp and runs it with the options given, --data FILE among them (--help lists them all).
# Where no --data or --config names a text it trains on build/corpus.txt: this repository's headers and documentation and the system's licences.
# What it says itself goes to stderr, with a sign of life every 10 seconds (WEFT_SIGN_SECONDS) while it builds, so that stdout
# is the program's: ./examples/run.sh --print-config > config.json
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

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
mkdir -p "$build"
log="$build/build.log"
exec 9>"$build/lock"
if ! flock -n 9; then
  echo "== waiting for another run.sh that is building" >&2
  flock 9
fi
echo "== building train_llama (minutes the first time; the log is $log)" >&2
: >"$log"
while sleep "${WEFT_SIGN_SECONDS:-10}" >/dev/null 2>&1; do
  echo "== still building, $SECONDS s: $(tail -n 1 "$log" | cut -c1-60)" >&2
done </dev/null >/dev/null 9>&- &
signs=$!
trap 'kill $signs 2>/dev/null || true' EXIT
if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 -DWEFT_BUILD_TESTS=OFF \
  -DWEFT_BUILD_BENCH=OFF -DWEFT_CUDA=OFF && cmake --build "$build" --target train_llama -j "$(nproc)"; } 2>&1 |
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
TRAIN_LLAMA_DATA="$root/build/corpus.txt" exec "$build/examples/train_llama" "$@"
