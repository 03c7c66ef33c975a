#!/usr/bin/env python3
"""Times text from a GPT-2 of 124M parameters with random weights, greedy, in turns: Weft's generate_tokens, transformers' generate, and
llama.cpp through llama-cpp-python, where that and gguf are installed.

    bench/compare/text.sh [--rounds N] [--precisions fp32 bf16] [--threads 1 2] [--texts 1 8] [--prompt N] [--tokens N]
"""
import argparse
import os
import statistics
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--text", required=True, help="the compiled text.cpp")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--precisions", nargs="*", default=["fp32", "bf16"])
parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
parser.add_argument("--texts", nargs="*", type=int, default=[1, 8])
parser.add_argument("--prompt", type=int, default=128)
parser.add_argument("--tokens", type=int, default=64)
o = parser.parse_args()
os.environ["OMP_WAIT_POLICY"] = "passive"  # idle threads of one side take no core from the other

import torch
import transformers as hf

try:
    import llama_cpp_side
    third = f"llama-cpp-python {llama_cpp_side.lib.__version__}"
except ImportError as e:
    llama_cpp_side = None
    third = f"no llama.cpp ({e})"

cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
print(f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}, PyTorch {torch.__version__}, "
      f"transformers {hf.__version__}, {third}, {o.rounds} rounds; {o.tokens} tokens behind {o.prompt}")
print("\n| precision | threads | texts at once | Weft tok/s | transformers tok/s | ratio of medians | ratio of best | "
      "llama.cpp tok/s | ratio of medians | ratio of best |\n|---|---|---|---|---|---|---|---|---|---|")
for precision in o.precisions:
    kind = torch.float32 if precision == "fp32" else torch.bfloat16
    model = hf.GPT2LMHeadModel(hf.GPT2Config()).to(kind).eval()
    for threads in o.threads:
        torch.set_num_threads(threads)
        for texts in o.texts:
            prompt = torch.tensor([i * 7919 % 50257 for i in range(o.prompt * texts)]).reshape(texts, o.prompt)

            def theirs():
                begin = time.perf_counter()
                with torch.inference_mode():
                    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=o.tokens,
                                         max_new_tokens=o.tokens, pad_token_id=0)
                assert out.shape[1] == o.prompt + o.tokens
                return time.perf_counter() - begin

            weft = subprocess.Popen([o.text, precision, *map(str, (threads, o.prompt, o.tokens, texts))], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)

            def ours():
                weft.stdin.write("\n")
                weft.stdin.flush()
                return float(weft.stdout.readline())

            def others():
                begin = time.perf_counter()
                out = cpp.generate(prompt.tolist(), o.tokens)
                assert len(out[0]) == o.tokens
                return time.perf_counter() - begin

            assert weft.stdout.readline() == "ready\n"
            sides = {ours: [], theirs: []}
            if llama_cpp_side:
                cpp = llama_cpp_side.LlamaCpp(model, precision == "bf16", threads, texts, o.prompt + o.tokens)
                sides[others] = []
                if precision == "fp32":  # the same numbers: the same tokens
                    same = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=8, max_new_tokens=8, pad_token_id=0)
                    assert cpp.generate(prompt.tolist(), 8) == same[:, o.prompt:].tolist(), "llama.cpp writes other tokens"
            for side in sides:
                side()
            for turn in range(o.rounds):
                for side in list(sides) if turn % 2 == 0 else list(sides)[::-1]:
                    sides[side].append(side())
            weft.stdin.close()
            weft.wait()
            speed = lambda times: o.tokens * texts / statistics.median(times)
            a, row = sides[ours], f"| {precision} | {threads} | {texts} | {speed(sides[ours]):.1f} |"
            for b in list(sides.values())[1:]:
                row += f" {speed(b):.1f} | {speed(a) / speed(b):.2f} | {min(b) / min(a):.2f} |"
            print(row if llama_cpp_side else row + " | | |", flush=True)
            if llama_cpp_side:
                cpp.end()
