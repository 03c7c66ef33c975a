#!/usr/bin/env bash
# bench/compile_time/run.sh [--units | --log FILE] [--first] [--check] [--write]: what the library costs its users' compiler (CXX, default g++).
# Prints user seconds (the least of three runs; with --check of as many as it takes to pass) and peak memory:
#   standard_headers  the standard headers that the umbrella includes, alone, at -O0
#   umbrella          what <weft/weft.hpp> adds to them, at -O0
#   first_example     examples/01_first.cpp at -O2
#   first_training    the trainer's program on docs/quickstart.md at -O2, compiled in turns with first_example: it may take
#                     2.5 times that one's seconds
#   ..._linked        both with -DWEFT_COMPILED, as programs that link weft::compiled; _linked_O0 at -O0. The trainer may take 0.55 and
#                     0.4 times the seconds of first_training
#   ..._precompiled_O0  the same at -O0 with <weft/weft.hpp> precompiled, which takes about as long once
#   --first leaves out the trainer's program, which takes most of the time
#   tests/...         with --units: every test unit at -O2, once; with --log FILE these alone, as a build has logged them
#                     (<build>/compile_times.txt), so that nothing is compiled again
# Seconds on a busy or another machine say little alone, so each is also given `scaled`: times the ratio of the baseline's
# standard_headers to this run's. --check fails when a memory budget is passed at all, or a scaled figure passes its budget by
# more than half; seconds are judged only with the baseline's compiler. Units in a log were compiled many at once, and nothing
# can scale them: they fail above twice their budget. --write makes this run the baseline, bench/compile_time/baseline.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
CXX=${CXX:-g++}
baseline=bench/compile_time/baseline.txt
units='' check='' write='' log='' trainer=1
while [ $# -gt 0 ]; do
  case $1 in
    --units) units=1 ;;
    --log) log=${2:?--log takes a file} && shift ;;
    --first) trainer='' ;;
    --check) check=1 ;;
    --write) write=1 ;;
    *) sed -n '2,20s/^# //p' "$0"; exit 2 ;;
  esac
  shift
done
if [ ! -x /usr/bin/time ]; then
  echo "GNU time is not here (Debian: apt-get install time)"
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# compile NAME OPTIONS...: once more; the least user seconds and the peak memory in MB of all its runs into $figures.
compile() {
  local runs="$out/runs.$1"
  shift
  /usr/bin/time -o "$out/time" -f '%U %M' "$CXX" -std=c++20 "$@" -c -o "$out/o" || { echo "FAULT: $* doesn't compile"; exit 1; }
  cat "$out/time" >>"$runs"
  figures=$(awk 'NR == 1 || $1 < least { least = $1 } $2 > most { most = $2 } END { printf "%.2f %.0f", least, most / 1024 }' "$runs")
}

# What a build has logged (seconds, KB, source): the last compilation of each test unit that is still there.
read_log() {
  awk 'NF == 3 && $3 ~ /_test\.cpp$/ { sub(/^.*\/tests\//, "tests/", $3); last[$3] = $1 " " int($2 / 1024 + 0.5) }
    END { for (source in last) print source, last[source] }' "$log" | sort >"$out/logged"
  while read -r source figures; do
    if [ -f "$source" ]; then echo "$source $figures"; fi
  done <"$out/logged" >"$out/now"
  if [ ! -s "$out/now" ]; then
    echo "note: $log names no test unit that is still there: the compiler cache answered for all of them"
    exit 0
  fi
}

prepare() {
  # Every standard header that a header of the umbrella names.
  echo '#include <weft/weft.hpp>' >"$out/umbrella.cpp"
  "$CXX" -std=c++20 -Iinclude -M "$out/umbrella.cpp" | tr ' \\' '\n\n' | grep '^include/weft/' | sort -u |
    xargs sed -nE 's/^[ \t]*#[ \t]*include[ \t]*(<[a-z_]+(\.h)?>).*/\1/p' | sort -u | grep -v 'cblas\.h' |
    sed 's/^/#include /' >"$out/standard.cpp"
  awk '/^```cpp$/ { inside = 1; text = ""; next } /^```$/ { if (inside && text ~ /trainer/ && text ~ /int main/) printf "%s", text; inside = 0 }
    inside { text = text $0 "\n" }' docs/quickstart.md >"$out/training.cpp"
  grep -q 'int main' "$out/training.cpp" || { echo "FAULT: docs/quickstart.md has no program with a trainer"; exit 1; }
}

# One run of each, and $out/now from all runs so far.
compile_round() {
  local standard umbrella first linked=(-Iinclude -DWEFT_COMPILED)
  compile standard -O0 "$out/standard.cpp"
  standard=$figures
  compile umbrella -O0 -Iinclude "$out/umbrella.cpp"
  umbrella=$figures
  compile first -O2 -Iinclude examples/01_first.cpp
  first=$figures
  {
    echo "standard_headers $standard"
    echo "$standard $umbrella" | awk '{ printf "umbrella %.2f %d\n", $3 - $1, $4 }'
    echo "first_example $first"
    compile first_linked -O2 "${linked[@]}" examples/01_first.cpp
    echo "first_example_linked $figures"
    if [ -z "$trainer" ]; then return; fi
    compile training -O2 -Iinclude "$out/training.cpp"
    echo "first_training $figures"
    compile training_linked -O2 "${linked[@]}" "$out/training.cpp"
    echo "first_training_linked $figures"
    compile training_linked_O0 -O0 "${linked[@]}" "$out/training.cpp"
    echo "first_training_linked_O0 $figures"
    if [ ! -f "$out/all.hpp.gch" ]; then
      echo '#include <weft/weft.hpp>' >"$out/all.hpp"
      "$CXX" -std=c++20 -O0 "${linked[@]}" -x c++-header "$out/all.hpp" -o "$out/all.hpp.gch"
    fi
    compile training_precompiled -O0 "${linked[@]}" -include "$out/all.hpp" "$out/training.cpp"
    echo "first_training_precompiled_O0 $figures"
  } >"$out/now"
}

compile_units() {
  find tests -name '*_test.cpp' | sort >"$out/units"
  while read -r source; do
    compile "${source//\//_}" -O2 -Iinclude -Itests "$source"
    echo "$source $figures" >>"$out/now"
  done <"$out/units"
}

version=$("$CXX" --version | head -n 1)
slack=1.5
same_compiler=''
if grep -qF " ${version#* }" "$baseline"; then same_compiler=1; fi  # g++ may be called c++
# The budgets: seconds, MB.
judge() {
  awk -v check="$check" -v slack="$slack" -v same_compiler="$same_compiler" '
    function budget(name) {
      if (name == "first_training") return int(250 * first + 0.5) / 100  # as many times the first example as were measured beside it
      if (name ~ /^first_training_(linked|precompiled)/) return int((name ~ /O0$/ ? 40 : 55) * training + 0.5) / 100
      return name == "umbrella" ? 1.0 : name ~ /^first_example/ ? 5.0 : name == "standard_headers" ? 0 : 60
    }
    /^#/ { next }
    FILENAME == ARGV[1] { was[$1] = $2; next }
    FNR == 1 {
      scale = $1 == "standard_headers" && ($1 in was) && $2 > 0 ? was[$1] / $2 : 1
      if (!same_compiler) note[++notes] = "the baseline is another compiler\047s: seconds are not judged"
      printf "%-44s %8s %8s %8s %8s %8s\n", "", "user s", "scaled", "baseline", "budget", "peak MB"
    }
    {
      if ($1 == "first_example") first = $2 * scale
      if ($1 == "first_training") training = $2 * scale
      b = budget($1)
      printf "%-44s %8.2f %8.2f %8s %8s %8d\n", $1, $2, $2 * scale, ($1 in was) ? was[$1] : "-", b ? b : "-", $3
      if (b && same_compiler && $2 * scale > b * slack) fault[++faults] = $1 " takes " $2 * scale " s (scaled), its budget is " b " s"
      else if (b && $2 * scale > b) note[++notes] = $1 " is above its budget of " b " s, within the slack"
      if ($1 == "standard_headers" && !($1 in was)) print "note: there is no baseline, so nothing is scaled"
      if ($3 > 2048) fault[++faults] = $1 " takes " $3 " MB, the budget is 2048 MB"
    }
    END {
      for (i = 1; i <= notes; i++) print "note: " note[i]
      for (i = 1; i <= faults; i++) print "FAULT: " fault[i]
      exit check && faults > 0
    }' "$baseline" "$out/now"
}
if [ -n "$log" ]; then
  read_log
  slack=2
else
  prepare
  for round in 1 2 3; do
    compile_round
    if [ -n "$check" ] && [ -z "$write" ] && judge >"$out/judged"; then break; fi
  done
  if [ -n "$units" ]; then compile_units; fi
fi
if [ -n "$write" ]; then
  { echo "# name, user seconds, peak MB: written by bench/compile_time/run.sh --write, with $version"; cat "$out/now"; } >"$baseline"
fi
judge
