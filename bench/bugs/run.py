"""Runs every program of bench/bugs, right and wrong, writes what happened to docs/bugs.jsonl and makes docs/bugs.md's tables from it.

  run.py [--python VENV_PYTHON] [--only LIBRARY ...] [--fault NAME ...] [--repeat N]   runs; what isn't run keeps its lines
  run.py --tables [--check]   makes the tables from docs/bugs.jsonl; --check fails where the page has others

Needs no package itself. Started by run.sh, which makes the environment in which the Python programs run.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

here = Path(__file__).resolve().parent
root = here.parent.parent
results, page = root / "docs/bugs.jsonl", root / "docs/bugs.md"
FAULTS = tomllib.loads((here / "faults.toml").read_text())["fault"]

# key: title, the program's file, environment, import that comes before everything
LIBRARIES = {
    "weft": ("Weft", "weft.cpp", {}, None),
    "jax_explicit": ("JAX, explicit sharding", "jax_explicit.py", {}, "on_jax"),
    "jax_shard_map": ("JAX, shard_map", "jax_shard_map.py", {}, "on_jax"),
    "spmd": ("spmd_types, strict and global", "spmd.py", {}, "on_spmd"),
    "dtensor": ("DTensor, explicit", "dtensor.py", {}, "on_torch"),
    "spmd_default": ("spmd_types", "spmd.py", {"SPMD_LOCAL": "1"}, "on_spmd"),
    "dtensor_default": ("DTensor", "dtensor.py", {"DTENSOR_IMPLICIT": "1"}, "on_torch"),
}
STRICT = ["weft", "jax_explicit", "jax_shard_map", "spmd", "dtensor"]
DEFAULTS = ["spmd_default", "dtensor_default"]
PACKAGES = {"jax_explicit": ["jax"], "jax_shard_map": ["jax"], "spmd": ["spmd_types", "torch"], "spmd_default": ["spmd_types", "torch"],
            "dtensor": ["torch"], "dtensor_default": ["torch"]}


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def timed(command, **options):
    """Runs it: processor seconds, user's and system's, of all its processes, which a busy machine hardly changes; and what it said."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return used() - before, done


# ---- running

def run_weft(source, wrong, work):
    """What g++, and then the program, answers, as the Python programs do; and the seconds of both."""
    program = work / "program"
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", *(["-DWRONG"] if wrong else []), "-Iinclude", str(source), "-o", str(program),
               "-pthread"]
    seconds, done = timed(command, cwd=root)
    if done.returncode:
        for line in done.stderr.splitlines():
            if "error" in line and "weft: " in line:
                says = "weft: " + line.split("weft: ", 1)[1].rstrip('"')
                return {"refused": {"phase": "compile", "error": "static_assert", "says": says}}, seconds
        sys.exit(f"{source}: the compiler ended with {done.returncode}, without a sentence of the library:\n{done.stderr[:2000]}")
    running, done = timed([str(program)])
    if done.returncode:
        sys.exit(f"{source}: ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), seconds + running


def run_python(source, wrong, python, environment):
    seconds, done = timed([python, str(source), *(["wrong"] if wrong else [])],
                          env=os.environ | {"PYTHONPATH": str(here), "PYTHONDONTWRITEBYTECODE": "1"} | environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{source}: ended with {done.returncode}: {done.stderr[-3000:]}")
    return json.loads(lines[-1]), seconds


def one_rank(name, options):
    """The right number: what one rank computes in double precision, or, without PyTorch, what was written down of it before."""
    if options.python and subprocess.run([options.python, "-c", "import torch"], capture_output=True).returncode == 0:
        return run_python(here / name / "one_rank.py", False, options.python, {})[0]["numbers"][0]
    for row in read():
        if row.get("fault") == name and row["library"] == "one_rank":
            return row["numbers"][0]
    sys.exit(f"docs/bugs.jsonl doesn't say what one rank computes in {name}, and there is no PyTorch here to ask")


def close(numbers, right):
    return all(abs(x - right) <= 1e-4 * max(1, abs(right)) for x in numbers)


def run_all(options):
    wanted = options.only or list(LIBRARIES)
    names = options.fault or [fault["name"] for fault in FAULTS]
    rights = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for library in wanted:
            title, file, environment, module = LIBRARIES[library]
            rows = []
            if library == "weft":
                empty = work / "empty.cpp"
                empty.write_text(f'#include "{here / "program.hpp"}"\nint main() {{}}\n')
                compiler = os.environ.get("CXX", "g++")
                before = min(timed([compiler, "-std=c++20", "-O2", "-Iinclude", "-fsyntax-only", str(empty)], cwd=root)[0] for _ in range(3))
                version = timed([compiler, "--version"])[1].stdout.splitlines()[0]
            else:
                if not options.python:
                    print(f"SKIPPED: {title}: no Python environment with {' and '.join(PACKAGES[library])}; its lines stay as they were")
                    continue
                probe = "import importlib.metadata as m; print(', '.join(f'{p} {m.version(p)}' for p in " + repr(PACKAGES[library]) + "))"
                done = subprocess.run([options.python, "-c", probe], capture_output=True, text=True)
                if done.returncode:
                    print(f"SKIPPED: {title}: {done.stderr.strip().splitlines()[-1]}; its lines stay as they were")
                    continue
                version = done.stdout.strip() + ", Python " + platform.python_version()
                before = min(timed([options.python, "-c", f"import {module}"], env=os.environ | {"PYTHONPATH": str(here)})[0] for _ in range(3))
            rows.append({"library": library, "version": version, "processor": processor(), "cores": len(os.sched_getaffinity(0)),
                         "date": time.strftime("%Y-%m-%d"), "before_the_first_line": round(before, 2)})
            for fault in FAULTS:
                name = fault["name"]
                if name not in names:
                    continue
                source = here / name / file
                call = (lambda wrong: run_weft(source, wrong, work)) if library == "weft" else (
                    lambda wrong: run_python(source, wrong, options.python, environment))
                if name not in rights:
                    rights[name] = one_rank(name, options)
                rows.append({"fault": name, "library": "one_rank", "program": "right", "answer": "right", "numbers": [rights[name]]})
                right, seconds = call(False)
                row = {"fault": name, "library": library, "program": "right", "seconds": round(seconds, 1)}
                if "refused" in right:
                    if library in STRICT:
                        sys.exit(f"{source}: the right program is refused: {right['refused']}")
                    rows.append(row | {"answer": "refused"} | right["refused"])
                elif not close(right["numbers"], rights[name]):
                    sys.exit(f"{source}: the right program has {right['numbers']}, one rank has {rights[name]}")
                else:
                    rows.append(row | {"answer": "right", "numbers": right["numbers"]})
                wrong, seconds = call(True)
                row = {"fault": name, "library": library, "program": "wrong"}
                if "refused" in wrong:
                    seconds = statistics.median([seconds] + [call(True)[1] for _ in range(options.repeat - 1)])
                    rows.append(row | {"seconds": round(seconds, 1), "answer": "refused"} | wrong["refused"])
                else:
                    answer = "right" if close(wrong["numbers"], rights[name]) else "wrong"
                    rows.append(row | {"seconds": round(seconds, 1), "answer": answer, "numbers": wrong["numbers"]})
                print(f"{name:22} {title:30} {cell(rows[-1], rights[name])}", flush=True)
                replaced = {(row["library"], row.get("fault"), row.get("program")) for row in rows}
                write(rows + [row for row in read() if (row["library"], row.get("fault"), row.get("program")) not in replaced])


def read():
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def write(rows):
    faults, libraries = [fault["name"] for fault in FAULTS], ["one_rank", *LIBRARIES]
    rows.sort(key=lambda row: (faults.index(row["fault"]) if "fault" in row else -1, libraries.index(row["library"]), row.get("program", "")))
    results.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


# ---- the page

def figure(x):
    return f"{x:.4g}"


def cell(row, right):
    if row is None:
        return "not run"
    if row["answer"] == "refused":
        return f"{row['phase']}, {row['seconds']:.1f} s"
    if row["answer"] == "right":
        return "right anyway"
    return f"**never**: {' and '.join(figure(x) for x in row['numbers'])} for {figure(right)}"


def tables():
    rows = read()
    of = {(row["fault"], row["library"], row["program"]): row for row in rows if "fault" in row}
    rights = {fault["name"]: of[fault["name"], "one_rank", "right"]["numbers"][0] for fault in FAULTS}

    def table(libraries, cell_of):
        lines = ["| fault | " + " | ".join(LIBRARIES[library][0] for library in libraries) + " |", "|---" * (len(libraries) + 1) + "|"]
        for fault in FAULTS:
            name = fault["name"]
            lines.append(f"| [{fault['title']}](#{name}) | " + " | ".join(cell_of(name, library) for library in libraries) + " |")
        return lines

    def default_cell(name, library):
        right, wrong = of.get((name, library, "right")), of.get((name, library, "wrong"))
        if right and right["answer"] == "refused":
            return "the right program is refused too"
        return cell(wrong, rights[name])

    def count(library):
        answers = [of[fault["name"], library, "wrong"]["answer"] for fault in FAULTS if (fault["name"], library, "wrong") in of]
        return f"{answers.count('refused')}, {answers.count('right')}, {answers.count('wrong')}"

    parts = {}
    parts["table"] = table(STRICT, lambda name, library: cell(of.get((name, library, "wrong")), rights[name]))
    parts["table"].append("| *refused, right anyway, never* | " + " | ".join(count(library) for library in STRICT) + " |")
    parts["default modes"] = table(DEFAULTS, default_cell)

    each = []
    for fault in FAULTS:
        name = fault["name"]
        each += [f'<a id="{name}"></a>', f"### {fault['title']}", "", f"[{fault['source'].replace('#', ' #')}]({fault['url']}). " + fault["text"], "",
                 f"The number is {fault['number']}: {figure(rights[name])}. [Programs](../bench/bugs/{name}).", ""]
        for library in STRICT:
            row = of.get((name, library, "wrong"))
            line = f"- {LIBRARIES[library][0]}: {cell(row, rights[name])}."
            if row and row["answer"] == "refused":
                says = row["says"] if len(row["says"]) <= 200 else row["says"][:200].rsplit(" ", 1)[0] + " ..."
                line += f" `{'' if library == 'weft' else row['error'] + ': '}{says.replace('`', chr(39))}`"
            note = fault.get("notes", {}).get(library)
            each.append(line + (f" {note}" if note else ""))
        each.append("")
    parts["each"] = each[:-1]

    versions = ["| library | version | before a program's first line | the right programs | measured |", "|---|---|---|---|---|"]
    for row in rows:
        if "fault" not in row and row["library"] in STRICT:
            seconds = [of[fault["name"], row["library"], "right"]["seconds"] for fault in FAULTS if (fault["name"], row["library"], "right") in of]
            versions.append(f"| {LIBRARIES[row['library']][0]} | {row['version']} | {row['before_the_first_line']:.1f} s | {min(seconds):.1f} to "
                            f"{max(seconds):.1f} s | {row['date']}, {row['processor']}, {row['cores']} cores |")
    parts["versions"] = versions

    lines, out, inside = page.read_text().splitlines(), [], None
    for line in lines:
        if inside is None or line == "<!-- end of generated -->":
            out.append(line)
        if line.startswith("<!-- generated: "):
            inside = line[len("<!-- generated: "):-len(" -->")]
            out += parts[inside]
        elif line == "<!-- end of generated -->":
            inside = None
    return "\n".join(out) + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--python", help="the interpreter of an environment that has the peers")
    options.add_argument("--only", nargs="*", choices=list(LIBRARIES))
    options.add_argument("--fault", nargs="*", choices=[fault["name"] for fault in FAULTS])
    options.add_argument("--repeat", type=int, default=1, help="times that a refused program is run; the median counts")
    options.add_argument("--tables", action="store_true")
    options.add_argument("--check", action="store_true")
    options = options.parse_args()
    if not options.tables:
        run_all(options)
    made = tables()
    if options.check:
        if made != page.read_text():
            sys.exit("docs/bugs.md isn't what docs/bugs.jsonl says: python3 bench/bugs/run.py --tables")
    elif made != page.read_text():
        page.write_text(made)
        print(f"wrote {page.relative_to(root)}")


main()
