#!/usr/bin/env bash
# Several examples/run.sh at once don't disturb each other: all build, all read a whole corpus, none sees another's half
# done work. Beside a stand-in for the program, which says how long its text is; the script, CMake and Ninja are the real ones.
set -uo pipefail
for tool in cmake ninja flock; do
  command -v $tool >/dev/null || { echo "skipped: $tool is not here"; exit 77; }
done
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
faults=0
fault() { echo "FAULT: $*"; faults=$((faults + 1)); }

mkdir -p "$here/tests/check" "$here/examples" "$here/docs"
cp "$WEFT_SOURCE_DIR/examples/run.sh" "$here/examples/"
cp "$WEFT_SOURCE_DIR/tests/check/install.sh" "$here/tests/check/"
cp -r "$WEFT_SOURCE_DIR/include" "$here/"
echo page >"$here/README.md"
cat >"$here/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(stand_in LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/examples")
add_executable(train_llama program.cpp)
CMAKE
cat >"$here/program.cpp" <<'CPP'
#include <cstdio>
#include <cstdlib>
int main() {  // its text's length
  long length = 0;
  if (std::FILE* text = std::fopen(std::getenv("TRAIN_LLAMA_DATA"), "rb")) {
    while (std::fgetc(text) != EOF) ++length;
    std::fclose(text);
  }
  std::printf("length %ld\n", length);
}
CPP

for round in first second; do  # nothing is built yet; all is
  for i in 1 2 3 4 5 6; do
    bash "$here/examples/run.sh" >"$here/out.$i" 2>&1 &
    running[i]=$!
  done
  for i in 1 2 3 4 5 6; do
    wait "${running[i]}" || fault "$round round: run $i fails: $(tail -n 3 "$here/out.$i")"
    tail -n 1 "$here/out.$i"
  done >"$here/said"
  cat "$here/said" | grep FAULT && faults=$((faults + 1))
  [ "$(sort -u "$here/said" | wc -l)" = 1 ] || fault "$round round: the runs read different texts: $(sort "$here/said" | uniq -c)"
  grep -qE '^length [0-9]{6,}$' "$here/said" || fault "$round round: no run read a text: $(cat "$here/said")"
done
bash "$here/examples/run.sh" >"$here/out" 2>/dev/null
[ "$(wc -l <"$here/out")" = 1 ] && grep -q '^length' "$here/out" || fault "stdout has more than the program's lines: $(cat "$here/out")"
grep -q '^== building train_llama' "$here/out.1" || fault "no sign of the build: $(cat "$here/out.1")"
[ -z "$(find "$here/build" -maxdepth 1 -name 'corpus.txt.*')" ] || fault 'temporary files are left in build/'

# What can't be built is refused before anything is: a backend that isn't one, and a machine without a GPU, or nvcc.
mkdir "$here/none"
for tool in bash env dirname head tr sed grep cat mkdir rm find g++ cmake ninja flock; do ln -sf "$(command -v $tool)" "$here/none/$tool"; done
# refuses_build SENTENCE [NAME=VALUE]... OPTIONS...
refuses_build() {
  local sentence=$1 set=()
  shift
  while [[ $1 =~ ^[A-Z]+= ]]; do set+=("$1") && shift; done
  env -u CUDAARCHS PATH="$here/none" CUDACXX=cat "${set[@]}" bash "$here/examples/run.sh" "$@" >"$here/out" 2>&1 && fault "$* is taken"
  grep -qF -- "$sentence" "$here/out" || fault "${set[*]} $* says: $(cat "$here/out")"
}
refuses_build "there is no backend called 'gpu'; there are cpu and cuda" --backend gpu
refuses_build "there is no backend called ''" --backend=
refuses_build '--backend takes what computes' --steps 1 --backend
refuses_build '--backend is given 2 times' --backend cuda --backend=cpu
[ -e /usr/local/cuda/bin/nvcc ] || refuses_build 'takes nvcc' CUDACXX=no-such-compiler --backend cuda
refuses_build 'there is no NVIDIA GPU here' --backend=cuda
for compute_cap in "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver." 'No devices were found' '[N/A]'; do
  printf '#!/bin/sh\necho "%s"\nexit 9\n' "$compute_cap" >"$here/none/nvidia-smi"
  chmod +x "$here/none/nvidia-smi"
  refuses_build 'there is no NVIDIA GPU here' --backend cuda
done
printf '#!/bin/sh\nprintf "7.5\\n9.0\\n"\n' >"$here/none/nvidia-smi"
refuses_build "compute capability 8.0 or later; CUDAARCHS, or else nvidia-smi, says '75'" --backend cuda
refuses_build "nvidia-smi, says '80 90'" CUDAARCHS='80 90' --backend cuda
refuses_build "nvidia-smi, says 'foo'" CUDAARCHS=foo --backend cuda
[ ! -e "$here/build/example_cuda" ] || fault "a folder is left of what can't be built"

# While a file takes long, here until two signs of life were given, there are such, and none afterwards.
cp "$here/CMakeLists.txt" "$here/kept"
cat >>"$here/CMakeLists.txt" <<'CMAKE'
add_custom_target(slow COMMAND bash "${CMAKE_SOURCE_DIR}/slow.sh" VERBATIM)
add_dependencies(train_llama slow)
CMAKE
signs() { grep -c '^== still building, [0-9]* s: ' "$here/err"; }
cat >"$here/slow.sh" <<SLOW
for i in {1..3000}; do [ "\$(grep -c '^== still building' "$here/err")" -ge \${SIGNS:-2} ] && exit; sleep 0.1; done
SLOW
WEFT_SIGN_SECONDS=1 bash "$here/examples/run.sh" >"$here/out" 2>"$here/err" || fault "the slow build fails: $(cat "$here/err")"
[ "$(signs)" -ge 2 ] || fault "a build of minutes gives no sign of life: $(cat "$here/err")"
[ "$(wc -l <"$here/out")" = 1 ] || fault "signs of life on stdout: $(cat "$here/out")"
size=$(wc -c <"$here/err")
sleep 1.5
[ "$(wc -c <"$here/err")" = "$size" ] || fault "signs of life after the build: $(cat "$here/err")"
# Who reads all that it says waits for the build alone, not for the next sign.
out=$(WEFT_SIGN_SECONDS=100000 SIGNS=0 timeout 500 bash "$here/examples/run.sh" 2>&1) || fault "run.sh's output stays open: $out"
mv "$here/kept" "$here/CMakeLists.txt"

echo 'int main() { return nothing; }' >"$here/program.cpp"
bash "$here/examples/run.sh" >"$here/out" 2>&1 && fault 'a program that does not compile is run'
grep -q 'nothing' "$here/out" || fault "the compiler's message is not shown: $(cat "$here/out")"
echo "$faults faults"
[ "$faults" = 0 ]
