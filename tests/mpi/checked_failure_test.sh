#!/usr/bin/env bash
# The catalogue of wrong programs over Open MPI and MPICH: every rank is told, in one sentence. A rank that is stuck can't be
# told: all processes end, and one that waited for it says so. Each of the two is given every other program, but all where all is
# asked for.
source "$WEFT_SOURCE_DIR/tests/mpi/common.sh"

for of in "${implementations[@]}"; do
  compile "$of" "$out/misusing" "$WEFT_SOURCE_DIR/tests/mpi/misusing.cpp"
  "$out/misusing" >"$out/catalogue"
  number=0 found=0 turn=$((1 - ${turn:-1}))
  while read -r ranks name; do
    if [ "${WEFT_TEST_ALL:-}" != yes ] && [ ${#implementations[@]} = 2 ] && [ $((number % 2)) != $turn ]; then
      number=$((number + 1))
      continue
    fi
    timeout 240 "mpirun.$of" -n "$ranks" "$out/misusing" $number 7 >"$out/stdout" 2>"$out/stderr" </dev/null
    end=$?
    said() { fault "$of: $name: $(head -c 3000 "$out/stderr")"; }
    if [[ $name == *stuck* ]]; then
      [ $end != 0 ] && grep -qE "(rank . found|weft: rank . of $ranks failed): rank . waits for .*, which rank . doesn't call: for 2 s" "$out/stderr" || said
    else
      [ "$(grep -c '^rank [0-9] found: ' "$out/stderr")" = "$ranks" ] || said
      sentences=$(sed -n 's/^rank [0-9] found: //p' "$out/stderr" | sort -u | wc -l)
      [ "$sentences" = 1 ] || [[ $name == *throws* ]] || said
    fi
    [ $end != 0 ] || found=$((found + 1))
    number=$((number + 1))
  done <"$out/catalogue"
  [ "$number" -ge 20 ] || fault "$of: the catalogue has $number programs"
  echo "$of: $number programs, $found of them ended by themselves"
done
[ $faults = 0 ]
