#!/usr/bin/env bash
# run.sh [--seed S] [--first N] [--count N] [--sources DIR] [--folder DIR] [--save DIR]: random typed programs (generate.cpp), 2,100 by
# default, each of which has to be refused in a sentence, by the compiler or by a weft::failure, or to equal one rank,
# losses and gradients, on every mesh (runner.cpp).
#   wrong    it compiles and is not equal, or ends otherwise than by a weft::failure; or the compiler's first error is not
#            a sentence of Weft's, or stands in more than 40 lines
#   unlike   typed.hpp, written from the documentation, expected something else of the compiler: no fault by itself, but
#            one of the two is mistaken
# Prints each of them with its source's path, and a last line `N programs: N equal, N refused by the compiler, N by an
# error, N wrong, N unlike`. Ends with 1 where one is wrong. --save: keeps the sources of those that are wrong or unlike.
# --sources: the files program_N.cpp of a folder instead, N from --first on. --folder: works there, with what an earlier
# run of the same sources has built there. By CXX, or, in a run of the tests that doesn't ask for all, as their other programs are
# compiled (check/program.sh, `quick`): in a third of the time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seed=1 first=1 count=2100 sources= folder= save=
while [ $# -gt 0 ]; do
  case $1 in
    --seed) seed=$2 ;;
    --first) first=$2 ;;
    --count) count=$2 ;;
    --sources) sources=$2 ;;
    --folder) folder=$2 ;;
    --save) save=$2 ;;
    *) echo "run.sh: unknown option $1; see its head"; exit 2 ;;
  esac
  shift 2
done
read -ra compiler <<<"${CXX:-g++}"
in_unit=40
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
flags=(-std=c++20 -O0 -w -I "$here/../../include" -I "$here")
libraries=()
limit=(timeout 300)
if [ -n "${WEFT_PCH:-}" ] && [ "${WEFT_TEST_ALL:-}" != yes ]; then
  compiler=("$WEFT_PCH_CXX") libraries=("$WEFT_PCH.o" "$WEFT_COMPILED_LIBRARY" -Wl,--gc-sections)
  flags+=(-pthread -DWEFT_CHECK=0 -DWEFT_COMPILED -include-pch "$WEFT_PCH" -fpch-instantiate-templates -fpch-codegen)
fi

# made FILE COMMAND...: by the command, unless it is there already.
made() { [ -e "$1" ] || "${@:2}"; }
made "$folder/generate" "${compiler[@]}" -std=c++20 -O0 -w "$here/generate.cpp" -o "$folder/generate"
made "$folder/runner.o" "${compiler[@]}" "${flags[@]}" -c "$here/runner.cpp" -o "$folder/runner.o"
made "$folder/trial.hpp" cp "$here/trial.hpp" "$folder/trial.hpp"
[ ${#libraries[@]} != 0 ] || made "$folder/trial.hpp.gch" "${compiler[@]}" "${flags[@]}" -x c++-header "$folder/trial.hpp" -o "$folder/trial.hpp.gch"
flags+=(-include "$folder/trial.hpp")

equal=0 by_compiler=0 by_error=0 wrong=0 unlike=0
source_of() { echo "$folder/program_$1.cpp"; }
# tell KIND NUMBER WHAT
tell() {
  echo "$1: program $2 of seed $seed: $3"
  if [ -n "$save" ]; then mkdir -p "$save" && cp "$(source_of "$2")" "$save/$1_${seed}_$2.cpp"; else sed 's/^/    /' "$(source_of "$2")"; fi
}
expected() { sed -n '1s/^\/\/ \([a-z]*\):.*/\1/p' "$(source_of "$1")"; }

# compiles NUMBER: whether the compiler takes it. Where it doesn't, its answer is judged.
compiles() {
  local out="$folder/answer"
  if "${limit[@]}" "${compiler[@]}" "${flags[@]}" -fsyntax-only "$(source_of "$1")" >"$out" 2>&1; then return 0; fi
  local error lines
  error=$(grep -m1 -E '(error|fatal error):|internal compiler' "$out" || true) lines=$(wc -l <"$out")
  by_compiler=$((by_compiler + 1))
  if [[ $error != *"weft: "* ]]; then
    wrong=$((wrong + 1)) by_compiler=$((by_compiler - 1))
    tell wrong "$1" "refused without a sentence, by: ${error:-no error}"
  elif [ "$lines" -gt 40 ]; then
    wrong=$((wrong + 1)) by_compiler=$((by_compiler - 1))
    tell wrong "$1" "refused in $lines lines: $error"
  elif [ "$(expected "$1")" = right ]; then
    unlike=$((unlike + 1))
    tell unlike "$1" "refused, and was expected to be right: $error"
  fi
  return 1
}

# build NUMBER...: one program of them all, $folder/unit.
build() {
  local n
  {
    echo '#include "trial.hpp"'
    for n in "$@"; do echo "#include \"$(source_of "$n")\""; done
    echo 'namespace programs { const std::vector<program> all_programs = {'
    for n in "$@"; do echo "{$n, program_$n},"; done
    echo '}; }'
  } >"$folder/unit.cpp"
  "${compiler[@]}" "${flags[@]}" -c "$folder/unit.cpp" -o "$folder/unit.o" >"$folder/unit.out" 2>&1 &&
    "${compiler[@]}" "$folder/unit.o" "$folder/runner.o" "${libraries[@]}" -o "$folder/unit" -pthread
}

# judge: runs the unit, on from the next program where one doesn't come back.
judge() {
  local from=0 status number is what last back
  while :; do
    status=0 last=0 back=yes
    { "${limit[@]}" "$folder/unit" "$from" >"$folder/findings" || status=$?; } 2>"$folder/stderr"
    while read -r number is what; do
      last=$number
      case $is in
        equal) equal=$((equal + 1)) ;;
        refused) by_error=$((by_error + 1)); [ -z "${VERBOSE:-}" ] || echo "refused: program $number: $what" ;;
        wrong) wrong=$((wrong + 1)); tell wrong "$number" "$what" ;;
        *) wrong=$((wrong + 1)) back=no; tell wrong "$number" "did not come back (status $status) $(head -c 300 "$folder/stderr")" ;;
      esac
    done < <(sed -e '$a\' "$folder/findings")
    [ $back = no ] || break
    from=$((last + 1))
  done
}

for ((at = first; at < first + count; at += in_unit)); do
  some=$((first + count - at < in_unit ? first + count - at : in_unit))
  if [ -n "$sources" ]; then
    for ((n = at; n < at + some; ++n)); do cp "$sources/program_$n.cpp" "$folder"; done
  else
    "$folder/generate" "$folder" "$seed" "$at" "$some"
  fi
  accepted=()
  for ((n = at; n < at + some; ++n)); do
    if [ "$(expected "$n")" = right ]; then
      accepted+=("$n")
    elif compiles "$n"; then
      unlike=$((unlike + 1))
      tell unlike "$n" "compiles, and was expected to be refused"
      accepted+=("$n")
    fi
  done
  until [ ${#accepted[@]} = 0 ] || build "${accepted[@]}"; do  # without those that the unit's errors name
    named=$(grep -oE 'program_[0-9]+\.cpp:[0-9]+:[0-9]+:' "$folder/unit.out" | grep -oE '^program_[0-9]+' | grep -oE '[0-9]+' | sort -un)
    [ -n "$named" ] || { head -n 20 "$folder/unit.out"; exit 1; }
    left=() dropped=0
    for n in "${accepted[@]}"; do
      if grep -qx "$n" <<<"$named" && ! compiles "$n"; then dropped=1; else left+=("$n"); fi
    done
    [ $dropped = 1 ] || { echo "run.sh: a unit does not compile, and each of its programs does"; head -n 20 "$folder/unit.out"; exit 1; }
    accepted=("${left[@]}")
  done
  before=$((equal + by_error + wrong))
  [ ${#accepted[@]} = 0 ] || judge
  [ $((equal + by_error + wrong - before)) = ${#accepted[@]} ] || { echo "run.sh: not every program was run; $(cat "$folder/stderr")"; exit 1; }
  for ((n = at; n < at + some; ++n)); do rm -f "$(source_of "$n")"; done
done
echo "$count programs: $equal equal, $by_compiler refused by the compiler, $by_error by an error, $wrong wrong, $unlike unlike"
[ $wrong = 0 ]
