#!/usr/bin/env python3
"""Times LoRA of a Llama of 134M parameters: Weft's trainer beside peft on transformers, one step of each in turn; and their memory.

    bench/compare/adapters.sh [--rounds N] [--forms fp32 bf16 int8 nf4] [--threads 1 2] [--seq N] [--batch N]
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from side import MALLOC, Side

here = Path(__file__).parent
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--adapters", required=True, help="the compiled adapters.cpp")
parser.add_argument("--work", required=True, help="a folder for the model that bitsandbytes loads")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--forms", nargs="*", default=["fp32", "bf16", "int8", "nf4"])
parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
parser.add_argument("--seq", type=int, default=256)
parser.add_argument("--batch", type=int, default=4)
o = parser.parse_args()


def started(name, command, env=None):
    side = Side(name, [command], dict(OMP_WAIT_POLICY="passive") | (env or {}))
    side.wait_ready()
    return side


def sides(form, threads):
    sizes = [str(threads), str(o.seq), str(o.batch)]
    yield started("weft", [o.adapters, form, *sizes])
    for setup in ["adapters-fp32"] if form == "fp32" else ["adapters-fp32", "adapters-bf16"]:
        command = [sys.executable, str(here / "peft_step.py"), form, setup, *sizes, f"{o.work}/llama-110M"]
        for env in (None, MALLOC):
            try:
                yield started(setup + ("+malloc" if env else ""), command, env)
            except RuntimeError as e:
                print(f"    {e}", flush=True)


versions = subprocess.run([sys.executable, "-c", "import torch, transformers, peft, bitsandbytes as b; print('PyTorch', torch.__version__, "
                           "'transformers', transformers.__version__, 'peft', peft.__version__, 'bitsandbytes', b.__version__)"],
                          capture_output=True, text=True, check=True).stdout.strip()
cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
print(f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}, {versions}, {o.rounds} rounds; "
      f"{o.batch} sequences of {o.seq} tokens")
print("\n| weights | threads | Weft tok/s | peft tok/s (fastest set-up) | ratio of medians | ratio of best | MB above start, Weft | least of peft | ratio |\n"
      "|---|---|---|---|---|---|---|---|---|")
for form in o.forms:
    for threads in o.threads:
        all_sides = list(sides(form, threads))
        warm = {s.name: min(s.step() for _ in range(2)) for s in all_sides}
        best = min(warm[s.name] for s in all_sides[1:])
        turning = [all_sides[0], *(s for s in all_sides[1:] if warm[s.name] <= 1.4 * best)]
        for turn in range(o.rounds):
            for s in turning if turn % 2 == 0 else turning[::-1]:
                s.seconds.append(s.step())
        for s in all_sides:
            s.end()
        median = lambda s: statistics.median(s.seconds)
        weft, peft = turning[0], min(turning[1:], key=median)
        tokens, least = o.seq * o.batch, min(s.above_start for s in all_sides[1:])
        print(f"| {form} | {threads} | {tokens / median(weft):,.0f} | {tokens / median(peft):,.0f} ({peft.name}) | {median(peft) / median(weft):.2f} | "
              f"{min(min(s.seconds) for s in turning[1:]) / min(weft.seconds):.2f} | {weft.above_start:,.0f} | {least:,.0f} | "
              f"{weft.above_start / least:.2f} |", flush=True)
