#!/usr/bin/env bash
# A sample of the random typed programs (run.sh), and before it that run.sh notices what it should: self/ holds programs
# of which each first line says how it has to be judged.
set -euo pipefail
cd "$WEFT_SOURCE_DIR/tests/programs"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
told=$(bash run.sh --folder "$folder" --sources self --count 8 --save "$folder/told") && { echo "run.sh found nothing in self/"; exit 1; }
echo "$told"
for line in "3 of seed 1: one rank's gradients have slope" \
  '5 of seed 1: refused without a sentence, by: ' '7 of seed 1: did not come back (status 134)' \
  '4 of seed 1: refused, and was expected to be right: .*weft: ' '6 of seed 1: compiles, and was expected to be refused'; do
  grep -q "program $line" <<<"$told" || { echo "run.sh does not say: program $line"; exit 1; }
done
[ "$(tail -n 1 <<<"$told")" = '8 programs: 2 equal, 1 refused by the compiler, 2 by an error, 3 wrong, 2 unlike' ]

bash run.sh --folder "$folder" --count "${WEFT_PROGRAMS:-8}"
