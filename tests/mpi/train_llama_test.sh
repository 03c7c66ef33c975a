#!/usr/bin/env bash
# mpirun -n 4 train_llama_mpi is train_llama: the same losses, gradient norms, sample and plan, to the last digit.
source "$WEFT_SOURCE_DIR/tests/mpi/common.sh"
programs=$WEFT_BINARY_DIR/examples
for program in train_llama train_llama_mpi; do
  [ -x "$programs/$program" ] || { echo "skipped: examples/$program is not built"; exit 77; }
done
mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$WEFT_BINARY_DIR/CMakeCache.txt")
cd "$out" || exit 1
seq 1 3000 >text
small=(--data text --layers 2 --hidden 64 --heads 4 --kv-heads 2 --seq 32 --steps 12 --threads 1 --sample-tokens 20)

equal() {  # equal OPTIONS...
  rm -rf one other
  timeout 300 "$programs/train_llama" "${small[@]}" "$@" --out one >one.out 2>one.err || fault "train_llama $*: $(cat one.err)"
  timeout 300 "$mpirun" -n 4 "$programs/train_llama_mpi" "${small[@]}" "$@" --out other >other.out 2>other.err ||
    fault "train_llama_mpi $*: $(cat other.err)"
  for run in one other; do sed 's/,"lr".*//' "$run/metrics.jsonl" >"$run.losses"; done
  [ "$(wc -l <one.losses)" -ge 12 ] || fault "$*: train_llama leaves $(wc -l <one.losses) lines"
  cmp one.losses other.losses || fault "$*: other losses"
  cmp one/sample.txt other/sample.txt || fault "$*: another sample"
  [ "$(ls one)" = "$(ls other)" ] || fault "$*: other files: $(ls one) and $(ls other)"
  [ "$(grep -c '"ph":"M","name":"process_name"\|process_name' one/trace.json)" = "$(grep -c 'process_name' other/trace.json)" ] ||
    fault "$*: a trace without all ranks"
}
equal
equal --strategy zero1-fp32 --dp 1 --tp 2 --pp 2 --micro-batches 4
equal --strategy replicated-bf16 --dp 4 --tp 1

# One process speaks.
"$mpirun" -n 3 "$programs/train_llama_mpi" --help >help 2>err || fault "--help exits with an error: $(cat err)"
[ "$(grep -c 'processes that mpirun starts' help)" = 1 ] || fault "--help is said $(grep -c 'processes that mpirun starts' help) times"
"$mpirun" -n 3 "$programs/train_llama_mpi" --data missing >help 2>err && fault "a missing text exits with 0"
[ "$(grep -c "missing can't be read" err)" = 1 ] || fault "a missing text is said $(grep -c "missing can't be read" err) times"
"$programs/train_llama_mpi" "${small[@]}" --out alone >help 2>err && fault "4 ranks without mpirun exit with 0"
grep -qF 'start it with: mpirun -n 4' err || fault "without mpirun it says $(cat err)"
[ $faults = 0 ]
