#!/usr/bin/env python3
"""bench/compile_time/parts.py [SOURCE [OPTION...]]: where a program's compilation goes, by part.

Compiles SOURCE (examples/01_first.cpp) by clang++ (or CXX, a clang) at -O2 with the given options behind it, as
-DWEFT_COMPILED or -O0, reads what -ftime-trace says, and prints seconds: reading headers by folder, instantiating
templates by name, and the optimiser and code generator by what a function is. Seconds of a busy machine's clock say
little alone; their shares do.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def trace_of(source, options):
    with tempfile.TemporaryDirectory() as work:
        output = os.path.join(work, "program.o")
        command = [os.environ.get("CXX", "clang++"), "-std=c++20", "-O2", "-I", os.path.join(ROOT, "include"), *options,
                   "-ftime-trace", "-ftime-trace-granularity=50", "-c", source, "-o", output]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"{' '.join(command)} failed: CXX has to be a clang++, and {source} has to compile")
        with open(os.path.join(work, "program.json")) as file:
            return [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and not e["name"].startswith("Total ")]


def nested(events):
    """Each event with its own seconds, without those of the events within it, and the events around it, outermost first."""
    stack, out = [], []
    for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while stack and e["ts"] >= stack[-1][0]["ts"] + stack[-1][0]["dur"]:
            stack.pop()
        if stack:
            stack[-1][1][0] -= e["dur"]
        own = [e["dur"]]
        out.append((e, own, [s[0] for s in stack]))
        stack.append((e, own))
    return [(e, max(own[0], 0) / 1e6, around) for e, own, around in out]


def folder_of(path):
    at = re.search(r"/weft/(?:([^/]+)/)?[^/]+$|/weft/([^/]+)/", path)
    if at:
        return "weft/" + (at.group(1) or at.group(2) or "")
    return "standard and system headers" if path.startswith(("/usr", "/lib", "/opt")) else "the program's own"


def without_arguments(name):
    """weft::detail::f<...>::g(...) as weft::detail::f::g."""
    out, depth = "", 0
    for c in re.sub(r"operator(<=>|<<|>>|<=|>=|->|<|>)", "operator", name).replace("(anonymous namespace)", "own"):
        depth += c in "<("
        if depth == 0:
            out += c
        depth -= c in ">)"
    return out.split(" ")[-1]


def kind_of(function):
    called = without_arguments(function.split(" [")[0])
    for target in ("portable", "avx2", "avx512"):
        if f"cpu::{target}" in called or f"cpu::{target}::" in function.split("(")[0]:
            return f"kernels, {target}"
    if "cpu::" in called or "gpu::" in called:
        return "kernels, for every instruction set"
    if called.startswith(("std::", "__gnu", "operator")):
        return "standard library"
    if not called.startswith("weft::"):
        return "the program's own"
    if "basic_tensor<" in function or "strategy<" in function:
        return "templates by placement"
    return "templates by backend and element type" if "<" in function.split("(")[0] else "functions that are no templates"


def table(title, seconds, most=20):
    rows = [(n, s) for n, s in sorted(seconds.items(), key=lambda r: -r[1]) if s >= 0.005]
    print(f"\n{title}: {sum(seconds.values()):.2f} s")
    for name, own in rows[:most]:
        print(f"  {own:7.2f}  {name}")
    if len(rows) > most:
        print(f"  {sum(s for _, s in rows[most:]):7.2f}  {len(rows) - most} others")


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    source = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "examples", "01_first.cpp")
    events = nested(trace_of(source, sys.argv[2:]))
    headers, templates, functions, whole = (collections.Counter() for _ in range(4))
    symbols = []
    for e, own, around in events:
        name = e["name"]
        if name == "ExecuteCompiler":
            total = e["dur"] / 1e6
        if name in ("Frontend", "Backend") and not any(a["name"] == name for a in around):
            whole[name] += e["dur"] / 1e6
        within = [(a["name"], a.get("args", {}).get("detail", "")) for a in (e, *reversed(around))]  # the innermost first
        if any(n == "Backend" for n, _ in within):
            symbols.append((next((d for _, d in within if re.fullmatch(r"_Z\w+", d.strip("()"))), "").strip("()"), own))
        elif name.startswith("Instantiate"):
            templates[without_arguments(within[0][1])] += own
        elif name == "Source" or name.startswith("Parse"):
            headers[next((folder_of(d) for n, d in within if n == "Source"), "the program's own")] += own
    names = subprocess.run(["c++filt"], input="\n".join(s for s, _ in symbols), capture_output=True, text=True).stdout.split("\n")
    for (symbol, own), name in zip(symbols, names):
        functions[kind_of(name) if symbol else "the module as a whole"] += own
    print(f"{source}: {total:.2f} s; front end {whole['Frontend']:.2f}, optimiser and code generator {whole['Backend']:.2f}")
    table("reading headers", headers)
    table("instantiating templates", templates, 25)
    table("optimising and generating code", functions)


main()
