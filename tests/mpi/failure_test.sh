#!/usr/bin/env bash
# Whatever a rank does wrong, its error is on stderr, every process ends by itself, and mpirun's exit code isn't 0;
# under Open MPI and MPICH. failing.cpp holds the ways. Each of the two is given every other way, but all where all is asked for.
source "$WEFT_SOURCE_DIR/tests/mpi/common.sh"

# says RANKS ASKED HOW SENTENCE...: every sentence is on stderr.
says() {
  local ranks=$1 asked=$2 how=$3 sentence
  shift 3
  number=$((number + 1))
  if [ "${WEFT_TEST_ALL:-}" != yes ] && [ ${#implementations[@]} = 2 ] && [ $((number % 2)) != $turn ]; then return; fi
  over "$of" "$ranks" "$out/failing" "$asked" "$how" >"$out/stdout" 2>"$out/stderr"
  case $? in
    0) fault "$of: $how exits with 0" ;;
    124) fault "$of: $how doesn't end" ;;
  esac
  for sentence in "$@"; do
    grep -qF -- "$sentence" "$out/stderr" ||
      fault "$of: $how doesn't say '$sentence' but: $(head -c 2000 "$out/stderr"; head -c 1000 "$out/stdout")"
  done
}

for of in "${implementations[@]}"; do
  compile "$of" "$out/failing" "$WEFT_SOURCE_DIR/tests/mpi/failing.cpp"
  number=0 turn=$((1 - ${turn:-1}))
  full=("main of rank 1: the disk is full" "main of rank 0: rank 1 failed: the disk is full" "main of rank 2: rank 1 failed: the disk is full")
  for how in idle group buffers open late swallowed; do says 3 3 $how "${full[@]}"; done
  for rank in 0 1 2; do all[rank]="main of rank $rank: the disk is full"; done
  says 3 3 all "${all[@]}"
  says 3 3 alone "weft: rank 1 of 3 failed: the disk is full"
  says 3 3 number "main of rank 1: no exception of the library's" "rank 1 failed: it threw what is no std::exception"
  says 3 3 uncaught "the disk is full"
  says 3 3 killed  # what mpirun says of it is its own
  says 3 3 exit "weft: rank 1 of 3 called exit while its launch ran"
  says 3 3 leaves "main of rank 1: there is no such file" "main of rank 0: rank 0 launches, and another process of this program ended without"
  says 3 3 sizes "rank 0 of group 'world' sends 8 bytes for the 16 bytes that rank 1 receives; make the two sizes equal."
  says 3 3 too-long "rank 0 of group 'world' sends more than the 16 bytes that rank 1 receives; make the two sizes equal."
  says 3 3 arguments "rank 1 failed: send names rank 3, but the group's ranks are 0 to 2."
  says 2 2 nested "another launch of this process runs"
  says 2 2 kept "a communicator of mpi::launch was used after the launch."
  says 3 4 idle "mpi::launch(4, f) takes 4 processes, and this program was started as 3; start it with: mpirun -n 4 PROGRAM ..."
  says 3 1 idle "mpi::launch(1, f) takes 1 process, and this program was started as 3; start it with: mpirun -n 1 PROGRAM ..."
  says 3 0 idle "mpi::launch takes 1 rank or more, not 0."
  # Who forgets mpirun.
  "$out/failing" 4 idle >"$out/stdout" 2>"$out/stderr" && fault "$of: 4 ranks without mpirun exit with 0"
  grep -qF "takes 4 processes, and this program was started as 1; start it with: mpirun -n 4 PROGRAM ..." "$out/stderr" ||
    fault "$of: without mpirun it says $(cat "$out/stderr")"
  # The mpirun of the other.
  for other in "${implementations[@]}"; do
    [ "$other" = "$of" ] && continue
    timeout 300 "mpirun.$other" -n 2 "$out/failing" 2 idle >"$out/stdout" 2>"$out/stderr" && fault "mpirun.$other starts $of's ranks"
    grep -qF "(2 processes were started, but by another MPI than the one that this program is built with, " "$out/stderr" ||
      fault "under mpirun.$other $of's program says $(cat "$out/stderr")"
  done
done
[ $faults = 0 ]
