#!/usr/bin/env bash
# tests/run.sh [--all | --release | --only FOLDER... | --changed]: installs what is missing (Debian; as root or with sudo), builds, and runs
# the tests that protect `main`: the release build's with a part of the units, all units by clang without optimisation, then, under
# AddressSanitizer with UndefinedBehaviorSanitizer and under ThreadSanitizer, those in which they can find something.
#   --all      every test: all units by g++ and under both sanitizers, every wrong program under clang and g++, ...
#   --release  without the sanitizers
#   --only F   without them, what lies in these folders of tests/ (also: compile_fail, header, pages, snippets, example)
#   --changed  without them, what the changes since `main` can reach: units that include a changed file, changed pages,
#              wrong programs and headers, and all checks of the tree
# It ends with where the minutes went and `N passed, N failed`; the exit code tells too. Counted are doctest's test cases, and one
# for every other check. JOBS=n sets the number of processes (default: nproc).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets='release units asan tsan' all=OFF only='' changed=''
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=ON presets='release asan tsan' ;;
    --release) presets='release units' ;;
    --changed) changed=yes presets='release units' ;;
    --only)
      presets='release units'
      while [ $# -gt 1 ] && [[ $2 != --* ]]; do only+="${only:+|}${2%/}" && shift; done
      [ -n "$only" ] || { echo "tests/run.sh: --only takes folders of tests/: --only op autograd" >&2; exit 2; }
      ;;
    -h | --help) sed -n '2,13s/^# //p' "$0"; exit 0 ;;
    *) echo "tests/run.sh: unknown option $1; there are --all, --release, --only FOLDER..., --changed and --help" >&2; exit 2 ;;
  esac
  shift
done
jobs=${JOBS:-$(nproc)}
[ $all = OFF ] || export WEFT_TEST_ALL=yes WEFT_PROGRAMS=${WEFT_PROGRAMS:-30} WEFT_REMEMBER=no

source tests/check/install.sh
need g++ g++
need cmake cmake
need ccache ccache
need ninja ninja-build
need clang++ clang
need clang-format clang-format
need /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.tsan-x86_64.a libclang-rt-14-dev
need /usr/include/doctest/doctest.h doctest-dev
need /usr/include/CLI/CLI.hpp libcli11-dev
need /usr/include/nlohmann/json.hpp nlohmann-json3-dev
need /usr/include/oniguruma.h libonig-dev
need /usr/include/utf8proc.h libutf8proc-dev
need /usr/include/zlib.h zlib1g-dev
need /usr/include/benchmark/benchmark.h libbenchmark-dev
need make make
need /usr/lib/python3/dist-packages/clang/cindex.py python3-clang-14
need pkg-config pkg-config
need valgrind valgrind
need /usr/bin/time time
want mpicxx.openmpi libopenmpi-dev openmpi-bin
want mpicxx.mpich libmpich-dev mpich
want /usr/lib/llvm-14/include/c++/v1/vector libc++-14-dev libc++abi-14-dev
want aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
want qemu-aarch64 qemu-user
want pip3 python3-pip
want x86_64-w64-mingw32-g++-posix g++-mingw-w64-x86-64-posix
install_missing || exit 1
frontend=$(bash tests/check/cudnn_frontend.sh) && export CUDNN_FRONTEND_ROOT=$frontend

mkdir -p build
WEFT_TREE=$(bash tests/check/remembered.sh --tree) && export WEFT_TREE
find "${XDG_CACHE_HOME:-$HOME/.cache}/weft/passed" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -r {} + 2>/dev/null
passed=0 failed=0 skipped=0 remembered=0 times=''
for preset in $presets; do
  begin=$SECONDS
  dir="build/$preset"
  echo "== $preset: configure and build ($jobs at a time)"
  part=()
  if [ "$preset" = release ]; then part=(-DWEFT_TEST_PART=rest -DWEFT_BUILD_BENCH=$all); fi
  if [ "$preset" = units ] && [[ $presets = *asan* ]] && [ $all = OFF ]; then part=('-DWEFT_TEST_PART=units beside asan'); fi
  # The library that g++ optimised serves units by clang too.
  if [ "$preset" = units ]; then
    compiled=$PWD/build/release/libweft_compiled.a
    cmake --build build/release -j "$jobs" --target weft_compiled >build/compiled.log 2>&1 || compiled=''
    part+=("-DWEFT_TEST_COMPILED=$compiled")
  fi
  if ! cmake --preset "$preset" -DWEFT_TEST_ALL=$all "${part[@]}" >build/configure.log 2>&1; then
    cat build/configure.log
    echo "-- $preset: does not configure"
    failed=$((failed + 1))
    continue
  fi
  targets=all selected=()
  if [ -n "$only" ]; then
    selected=(-R "^($only)/")
    if ctest --test-dir "$dir" -N "${selected[@]}" | grep -q '^Total Tests: 0$'; then continue; fi
    targets=$(bash tests/check/targets.sh "$dir" "$only")
  fi
  built=0
  # -k 0: one file that does not compile must not hide what the others say.
  # shellcheck disable=SC2086  # several targets
  if ! cmake --build "$dir" -j "$jobs" --target $targets -- -k 0 >"$dir/build.log" 2>&1; then
    built=1
    grep -E -A8 '^FAILED|error:|undefined reference' "$dir/build.log" | head -n 400
    echo "-- $preset: does not build; the whole log is $dir/build.log"
  fi
  if [ -n "$changed" ]; then
    bash tests/check/reached.sh "$dir" main >"$dir/reached" || exit 1
    if grep -qx '0,0,0' "$dir/reached"; then continue; fi
    selected=(-I "$dir/reached")
  fi
  seconds_built=$((SECONDS - begin))

  echo "== $preset: test"
  rm -f "$dir/tests.xml"
  ctest --preset "$preset" -j "$((jobs + 1))" "${selected[@]}" --output-junit "$PWD/$dir/tests.xml" --progress \
    --test-output-size-passed 1000000 --test-output-size-failed 1000000 >"$dir/tests.log" 2>&1
  status=$?
  if [ ! -f "$dir/tests.xml" ]; then
    tail -n 50 "$dir/tests.log"
    counts='0 1 0'
  else
    counts=$(awk -f tests/check/count.awk "$dir/tests.xml")
    if [ $status != 0 ]; then
      # Everything but the progress lines: each failing test's output, then ctest's list of the failures.
      grep -v -e '^\[[0-9 ]*%\] ' -e '^ *[0-9]*/[0-9]* Test .* Passed ' -e '^ *Start ' "$dir/tests.log" | tr '\r' '\n' |
        sed '/^Looked in the following places:/,/^Unable to find executable:/d' | tail -n 2000
    fi
  fi
  read -r p f s <<<"$counts"
  # A build that fails, or a ctest that fails without a test to show for it, counts as one failure itself.
  if [ $built != 0 ] || { [ $status != 0 ] && [ "$f" = 0 ]; }; then f=$((f + 1)); fi
  echo "-- $preset: $p passed, $f failed, $s skipped (build ${seconds_built} s, tests $((SECONDS - begin - seconds_built)) s)"
  [ ! -f "$dir/tests.xml" ] || remembered=$((remembered + $(grep -c 'remembered: it has passed' "$dir/tests.xml")))
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  times+=$(printf '%-10s %-16s %6d s' "$preset" build "$seconds_built")$'\n'
  [ ! -f "$dir/tests.xml" ] || times+=$(awk -v preset="$preset" -v jobs="$((jobs + 1))" -f tests/check/times.awk "$dir/tests.xml")$'\n'
done

echo "== where the minutes went: $((SECONDS / 60)) min $((SECONDS % 60)) s on $jobs cores ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1))"
printf '%s' "$times"
if [ "$passed" = 0 ]; then failed=$((failed + 1)); fi
[ "$remembered" = 0 ] || echo "$remembered checks had passed with the same files and packages (tests/check/remembered.sh)"
[ "$skipped" = 0 ] || echo "$skipped checks were skipped: they need a GPU, or a tool that is not here"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
