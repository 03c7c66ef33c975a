#!/usr/bin/env bash
# The Weft programs of bench/bugs do what docs/bugs.jsonl, and so docs/bugs.md, says: what is refused is refused by the compiler with
# that sentence, and every other program, right or wrong, prints that number. Asks for none of the peers.
# Those that run are compiled as one program.
set -euo pipefail
cd "$WEFT_SOURCE_DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stale="docs/bugs.md is stale: bench/bugs/run.sh --only weft"

# Lines of docs/bugs.jsonl about Weft: FAULT PROGRAM ANSWER, and the sentence or the numbers.
field() { sed -n 's/.*"'"$1"'": \("\(\([^"\\]\|\\.\)*\)"\|\(\[[^]]*\]\)\).*/\2\4/p' <<<"$2"; }
all=$work/all.cpp
printf '#include <weft/weft.hpp>\n#include "%s/bench/bugs/program.hpp"\n' "$PWD" >"$all"
calls='' running=0 refused=0
while read -r line; do
  fault=$(field fault "$line") program=$(field program "$line") source="$PWD/bench/bugs/$fault/weft.cpp"
  if [ "$(field answer "$line")" = refused ]; then
    says=$(field says "$line")
    if bash tests/check/program.sh "$work/wrong" quick -Iinclude -DWRONG "$source" 2>"$work/out"; then
      echo "$source: the wrong version compiles; it was refused when docs/bugs.jsonl was written"
      exit 1
    fi
    if ! grep -qF -- "$says" "$work/out"; then
      echo "$source: the wrong version is refused, but not with: $says"
      grep error "$work/out" | cut -c1-300 | head -n 5
      echo "$stale"
      exit 1
    fi
    refused=$((refused + 1))
  else
    define=$([ "$program" = wrong ] && echo '#define WRONG' || true)
    printf 'namespace %s_%s {\n%s\n#define main program\n#include "%s"\n#undef main\n#undef WRONG\n}\n' "$fault" "$program" "$define" "$source" >>"$all"
    calls+="std::printf(\"$fault $program $(field numbers "$line") \"); ${fault}_$program::program();"$'\n'
    running=$((running + 1))
  fi
done < <(grep '"library": "weft"' docs/bugs.jsonl | grep '"program": ')
[ "$refused" -ge 6 ] && [ $((running + refused)) = 24 ] ||
  { echo "docs/bugs.jsonl has $running programs of Weft that run and $refused that are refused; together they are 24"; exit 1; }

printf 'int main() {\n%s}\n' "$calls" >>"$all"
bash tests/check/program.sh "$work/all" quick -Iinclude "$all"
"$work/all" >"$work/numbers"
# FAULT PROGRAM [was] {"numbers": [is]}: as many numbers, each as near as single precision allows.
awk -v stale="$stale" '{
  line = $0; gsub(/[][{}:,"]|numbers/, " "); n = split($0, word, " "); half = (n - 2) / 2; bad = half < 1 || half != int(half)
  for (i = 1; i <= half && !bad; ++i) {
    was = word[2 + i]; is = word[2 + half + i]; d = was - is
    if (is !~ /^-?[0-9.]/ || (d < 0 ? -d : d) > 1e-4 * (was < 0 ? -was : was)) bad = 1
  }
  if (bad) { print "not what docs/bugs.jsonl says: " line; print stale; failed = 1 }
} END { exit failed }' "$work/numbers"
[ "$(wc -l <"$work/numbers")" = "$running" ]

if python3 -c 'import tomllib' 2>/dev/null; then
  python3 bench/bugs/run.py --tables --check
else
  echo "note: python3 with tomllib (3.11) is not here: the tables of docs/bugs.md aren't held to docs/bugs.jsonl"
fi
echo "$running programs run, $refused are refused"
