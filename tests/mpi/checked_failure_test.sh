#!/usr/bin/env bash
# The catalogue of wrong programs over Open MPI and MPICH: every rank is told, in one sentence and in under a second. A
# rank that is stuck can't be told: all processes end.
source "$WEFT_SOURCE_DIR/tests/mpi/common.sh"

run() {  # run NUMBER RANKS: leaves what was said in $out/stderr, and in `end` how it ended
  timeout 60 "mpirun.$of" -n "$2" "$out/misusing" "$1" $RANDOM >"$out/stdout" 2>"$out/stderr" </dev/null
  end=$?
}
for of in "${implementations[@]}"; do
  compile "$of" "$out/misusing" "$WEFT_SOURCE_DIR/tests/mpi/misusing.cpp"
  "$out/misusing" >"$out/catalogue"
  number=0 found=0
  while read -r ranks name; do
    for try in 1 2 3; do  # a machine that is busy with other things is slow; it says nothing else
      run $number "$ranks"
      if [[ $name == *stuck* ]]; then
        [ $end != 0 ] && grep -q "weft: rank . of $ranks failed: rank . waits for .*, which rank . doesn't call: for 0.3 s" "$out/stderr" && break
      elif [ "$(grep -c '^rank [0-9] after [0-9.]* s found: ' "$out/stderr")" = "$ranks" ]; then
        sentences=$(sed -n 's/^rank [0-9] after [0-9.]* s found: //p' "$out/stderr" | sort -u | wc -l)
        [ "$sentences" = 1 ] || [[ $name == *throws* ]] && break
      fi
      [ $try = 3 ] && fault "$of: $name: $(head -c 3000 "$out/stderr")"
    done
    [ $end != 0 ] || found=$((found + 1))
    number=$((number + 1))
  done <"$out/catalogue"
  [ "$number" -ge 20 ] || fault "$of: the catalogue has $number programs"
  echo "$of: $number programs, $found of them ended by themselves"
done
[ $faults = 0 ]
