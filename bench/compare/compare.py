"""Times Weft's training step beside PyTorch's: one step of each in turn, medians, ratios. Started by run.sh.

Every set-up of PyTorch is a process of its own that waits while the others work; set-ups much slower than the best one are
dropped after the warm-up. The ratio is taken with the fastest that is left. Needs no package itself. With --device cuda both sides are on
GPU 0: Weft's is bench/cuda/step.cu, and all set-ups warm up, and so compile, at the same time.
"""
import argparse
import contextlib
import fcntl
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from side import MALLOC, Side

here = Path(__file__).parent
MODELS = {
    # the defaults of examples/02_train_llama.cpp
    "main": dict(gpt2=0, layers=4, hidden=192, heads=6, kv_heads=2, ffn=512, vocab=256, seq=128, batch=16),
    "10.8M": dict(gpt2=0, layers=6, hidden=384, heads=6, kv_heads=6, ffn=1024, vocab=256, seq=256, batch=8),
    # positions for the tokens of a sequence only; without dropout
    "gpt2-124M": dict(gpt2=1, layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=50257, seq=128, batch=4),
}
SETUPS = {
    "fp32": ["eager", "eager+malloc", "compile+malloc"],
    "bf16": ["eager-master", "eager-master+malloc", "eager-autocast+malloc", "compile-master+malloc", "compile-autocast+malloc"],
}
ON_GPU = {
    "main": MODELS["main"],
    "gpt2-124M": dict(gpt2=1, layers=12, hidden=768, heads=12, kv_heads=12, ffn=3072, vocab=50304, seq=1024, batch=8),
    "llama-350M": dict(gpt2=0, layers=24, hidden=1024, heads=16, kv_heads=16, ffn=2816, vocab=32000, seq=2048, batch=4),
    "llama-1B": dict(gpt2=0, layers=18, hidden=2048, heads=16, kv_heads=16, ffn=5632, vocab=32000, seq=4096, batch=2),
}
SETUPS_ON_GPU = {
    "fp32": ["eager", "compile"],
    "bf16": ["eager-master", "eager-autocast", "compile-master", "compile-autocast", "compile-graphs-master"],
}
FEWER_ON_GPU = {  # in bf16, which fit a card of 80 GB together
    "llama-350M": ["eager-master", "compile-master", "compile-autocast"],
    "llama-1B": ["compile-master"],
}
# TFLOP/s of products in bf16 without sparsity, by the data sheets of these cards.
PEAKS = {"NVIDIA H200": 989, "NVIDIA H100 80GB HBM3": 989, "NVIDIA H100 PCIe": 756, "NVIDIA A100*": 312, "NVIDIA B200": 2250}
WARM_UP = 3


@contextlib.contextmanager
def machine_to_itself():
    """Holds the lock file that BENCH_LOCK names, for machines on which several measure."""
    if "BENCH_LOCK" not in os.environ:
        yield
        return
    with open(os.environ["BENCH_LOCK"], "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def words(numbers):
    return [str(w) for pair in numbers.items() for w in pair]


def one_of(table, key, what):
    if key not in table:
        sys.exit(f"compare.py: there is no {what} {key!r}: name one of {', '.join(table)}")
    return table[key]


def setups_of(case, only):
    """PyTorch's set-ups that a case is compared with."""
    on_gpu = case.get("device")
    known = one_of(SETUPS_ON_GPU if on_gpu else SETUPS, case["precision"], "precision")
    fewer = FEWER_ON_GPU.get(case["model"]) if on_gpu and case["precision"] == "bf16" else None
    wanted = only or fewer
    out = [setup for setup in known if not wanted or any(setup.startswith(w) for w in wanted)]
    if not out:
        sys.exit(f"compare.py: no set-up of PyTorch in {case['precision']} begins with {' or '.join(wanted)}: name some of {', '.join(known)}, or --precisions")
    return out


def start(case, step_program, only):
    device = case.get("device")
    model = one_of(ON_GPU if device else MODELS, case["model"], "model") | dict(threads=case["threads"], steps=100000)
    setups = setups_of(case, only)
    yield lambda: Side("weft", [[step_program, case["precision"], *words(model), "dp", str(case["dp"])]])
    for setup in setups:
        name, *tuned = setup.split("+")
        command = [sys.executable, str(here / "torch_step.py"), case["precision"], "setup", name, *(["device", device] if device else []), *words(model)]
        commands = [command]
        if case["dp"] == 2:
            port = free_port()
            commands = [[*command, "port", str(port), "rank", str(r)] for r in (0, 1)]
        yield lambda commands=commands, setup=setup, tuned=tuned: Side(setup, commands, MALLOC if tuned else None)


def share_of_peak(tflops, precision):
    """Model FLOPs' utilization, where the card's peak is known."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    try:
        card = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=" + first], capture_output=True, text=True).stdout.strip()
    except OSError:
        card = ""
    peak = next((most for name, most in PEAKS.items() if card == name or name[-1] == "*" and card.startswith(name[:-1])), None)
    return f"{tflops / peak:.0%}" if peak and precision == "bf16" else "-"


def flops(facts, model):
    """Of a step: 6 for each weight and token, and causal attention's products, forward and backward."""
    tokens = model["batch"] * model["seq"]
    return 6 * facts["parameters"] * tokens + 6 * model["layers"] * model["hidden"] * model["seq"] * tokens


def warm_up(side, begun):
    try:
        if not begun:
            side.wait_ready()
            side.begin(WARM_UP)
        side.warm = min([side.end_step() for _ in range(WARM_UP)][1:])
        return True
    except (RuntimeError, OSError) as e:
        print(f"    {side.name} doesn't run: {e}", flush=True)
        side.end()
        if side.name == "weft":
            raise
        return False


def compare(case, step_program, rounds, only):
    sides = []
    try:
        if case.get("device"):
            sides = [make() for make in start(case, step_program, only)]
            for side in sides:
                side.begin(WARM_UP)  # each reads its first line when it is ready
            sides = [side for side in sides if warm_up(side, True)]
            for side in sides:
                side.warm = min(side.step() for _ in range(WARM_UP))  # now alone
        else:
            for make in start(case, step_program, only):
                side = make()
                if warm_up(side, False):
                    sides.append(side)
        if len({s.facts["parameters"] for s in sides}) != 1:
            raise RuntimeError("the two sides' models have different counts of parameters")
        if len(sides) == 1:
            raise RuntimeError(f"none of PyTorch's set-ups ran {case['model']} in {case['precision']}: there is nothing to compare with")
        best = min(s.warm for s in sides[1:])
        for s in sides[1:]:
            if s.warm > 1.4 * best:
                s.end()
        sides = [sides[0], *(s for s in sides[1:] if s.warm <= 1.4 * best)]
        for turn in range(rounds):
            with machine_to_itself():
                order = sides if turn % 2 == 0 else sides[::-1]
                for s in order:
                    s.seconds.append(s.step())
    finally:
        for s in sides:
            s.end()
    model = (ON_GPU if case.get("device") else MODELS)[case["model"]]
    tokens = model["batch"] * model["seq"]
    figures = [dict(name=s.name, tokens_per_second=tokens / statistics.median(s.seconds), best=tokens / min(s.seconds),
                    peak_mb=s.peak_kb / 1024, base_mb=s.facts["base_kb"] / 1024) for s in sides]
    weft, torch = figures[0], max(figures[1:], key=lambda f: f["tokens_per_second"])
    for s, f in zip(sides, figures):
        f |= dict(step_ms=1000 * statistics.median(s.seconds), tflops=1e-12 * flops(s.facts, model) / statistics.median(s.seconds))
    result = case | dict(figures=figures, fastest=torch["name"], speed=weft["tokens_per_second"] / torch["tokens_per_second"],
                         speed_of_best=weft["best"] / max(f["best"] for f in figures[1:]),
                         memory=weft["peak_mb"] / min(f["peak_mb"] for f in figures[1:]),
                         memory_above_base=(weft["peak_mb"] - weft["base_mb"]) / min(f["peak_mb"] - f["base_mb"] for f in figures[1:]))
    if case.get("device"):
        for f in figures:
            print(f"| {case['model']} | {case['precision']} | {f['name']} | {f['step_ms']:.2f} | {f['tokens_per_second']:,.0f} | "
                  f"{f['tflops']:.1f} | {share_of_peak(f['tflops'], case['precision'])} | {f['peak_mb']:,.0f} | {weft['tokens_per_second'] / f['tokens_per_second']:.2f} |", flush=True)
        return result
    print(f"| {case['model']} | {case['precision']} | {case['dp']} x {case['threads']} | {weft['tokens_per_second']:,.0f} | "
          f"{torch['tokens_per_second']:,.0f} ({torch['name']}) | {result['speed']:.2f} | {result['speed_of_best']:.2f} | "
          f"{weft['peak_mb']:,.0f} / {torch['peak_mb']:,.0f} | {result['memory']:.2f} | {result['memory_above_base']:.2f} |", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", required=True, help="the compiled step.cpp")
    parser.add_argument("--out", default="results.jsonl", help="every figure, a line a case")
    parser.add_argument("--rounds", type=int, default=9, help="timed steps of each side")
    parser.add_argument("--device", help="cuda: on a GPU")
    parser.add_argument("--models", nargs="*", help="[all]")
    parser.add_argument("--precisions", nargs="*", default=list(SETUPS))
    parser.add_argument("--ranks", nargs="*", help="processes x threads [1x1 1x2 2x1; on a GPU 1x1]")
    parser.add_argument("--setups", nargs="*", help="PyTorch set-ups that begin so [all]")
    o = parser.parse_args()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    print(f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}, {o.rounds} rounds")
    if o.device:
        print("\n| model | precision | by | ms a step | tokens/s | TFLOP/s | MFU | peak MB | Weft's speed |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    else:
        print("\n| model | precision | ranks x threads | Weft tok/s | PyTorch tok/s (fastest set-up) | ratio of medians | ratio of best steps |"
              " peak MB | ratio | ratio above start |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with open(o.out, "a") as out:
        for model in o.models or (ON_GPU if o.device else MODELS):
            for ranks in o.ranks or (["1x1"] if o.device else ["1x1", "1x2", "2x1"]):
                dp, threads = map(int, ranks.split("x"))
                for precision in o.precisions:
                    case = dict(model=model, precision=precision, dp=dp, threads=threads) | (dict(device=o.device) if o.device else {})
                    result = compare(case, o.step, o.rounds, o.setups)
                    out.write(json.dumps(result) + "\n")
                    out.flush()
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


main()
