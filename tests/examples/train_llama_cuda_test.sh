#!/usr/bin/env bash
# train_llama_cuda is train_llama on a GPU, or on the device on the host: about the same losses and norms, the same files.
source "$WEFT_SOURCE_DIR/tests/examples/common.sh" train_llama_cuda
beside="$WEFT_BINARY_DIR/examples/train_llama"
[ -x "$beside" ] || { echo "skipped: examples/train_llama is not built"; exit 77; }
on_device=(bash "$WEFT_SOURCE_DIR/tests/device/run.sh" "$WEFT_BINARY_DIR/tests/device_runtime" --padding)
if [ -e /dev/nvidia0 ]; then
  on_device=()
elif [ ! -e "$WEFT_BINARY_DIR/tests/device_runtime/libcudart.so.13" ]; then
  echo "skipped: there is neither a GPU nor the device on the host, which stands for the libraries of CUDA 13"
  exit 77
fi
seq 1 3000 >text
small=(--data text --layers 2 --hidden 16 --heads 4 --kv-heads 2 --ffn 24 --seq 8 --batch 4 --steps 4 --warmup 1 --lr 1e-2 --threads 1 --sample-tokens 4 --save-every 2)

# alike TOLERANCE OPTIONS...: losses and gradient norms, as parts of what they are.
alike() {
  local tolerance=$1
  shift
  rm -rf cpu cuda
  timeout 120 "$beside" "${small[@]}" "$@" --out cpu >cpu.out 2>cpu.err || fault "train_llama $*: $(cat cpu.err)"
  timeout 300 "${on_device[@]}" "$program" "${small[@]}" "$@" --out cuda >cuda.out 2>cuda.err || fault "train_llama_cuda $*: $(cat cuda.out cuda.err)"
  for run in cpu cuda; do sed -n 's/.*"loss":\([^,]*\),"gradient_norm":\([^,]*\),.*/\1 \2/p' "$run/metrics.jsonl" >"$run.numbers"; done
  [ "$(wc -l <cpu.numbers)" = 4 ] || fault "$*: train_llama leaves $(wc -l <cpu.numbers) lines of numbers"
  paste cpu.numbers cuda.numbers | awk -v t="$tolerance" 'function off(a, b) { return a > b ? (a - b) / a : (b - a) / b }
    NF != 4 || off($1, $3) > t || off($2, $4) > t { print; wrong = 1 } END { exit wrong }' >apart || fault "$*: losses and norms of the CPU, and of CUDA: $(cat apart)"
  [ "$(ls cpu)" = "$(ls cuda)" ] || fault "$*: other files: $(ls cpu) and $(ls cuda)"
}
alike 0.02
alike 0.02 --strategy zero3-bf16-selective-sp --dp 1 --tp 2 --pp 2 --micro-batches 2
alike 1e-4 --strategy zero1-fp32-full

# A checkpoint is anybody's.
timeout 300 "${on_device[@]}" "$program" --resume cpu --steps 6 --out on >on.out 2>on.err || fault "--resume: $(cat on.out on.err)"
[ "$(sed -n 's/.*"step":\([0-9]*\),"loss".*"gradient_norm".*/\1/p' on/metrics.jsonl | tr '\n' ' ')" = "5 6 " ] || fault "--resume goes on with steps $(cat on/metrics.jsonl)"

grep -q '"backend":"cuda"' cuda/config.json && grep -q '"backend":"cpu"' cpu/config.json || fault "config.json doesn't say where its run was"
"$program" "${small[@]}" --plan >plan || fault "--plan: $(cat plan)"
grep -q 'scratch of kernels.*not planned' plan || fault "--plan knows a GPU's scratch: $(cat plan)"
if [ ! -e /dev/nvidia0 ]; then
  refused 1 'there is no NVIDIA GPU here that CUDA can use, or no driver for it; examples/run.sh --backend cpu' "${small[@]}" --out nowhere
  [ ! -e nowhere ] || fault "a folder is left of a run that had no GPU"
fi

refused 1 '--backend is cpu, and train_llama_cuda computes on cuda; examples/run.sh --backend cpu builds' --data text --backend cpu
program=$beside
refused 1 '--backend is cuda, and train_llama computes on cpu; examples/run.sh --backend cuda builds' --data text --backend cuda
refused 1 "no backend called 'gpu'; there are" --data text --backend gpu
[ $faults = 0 ]
