"""A competitor of compare.py and adapters.py: it waits while the others work, takes a step for each line on its stdin, and answers each with a
line of JSON (says.py; step.cpp and adapters.cpp)."""
import contextlib
import json
import os
import subprocess

# Freed memory stays with the process: without this, glibc gives large blocks back to the system at every step.
MALLOC = dict(MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="8589934592", MALLOC_TOP_PAD_="67108864")


class Side:
    """One competitor: a process, or two that step together."""

    def __init__(self, name, commands, env=None):
        self.name, self.seconds, self.peak_kb = name, [], 0
        self.processes = [subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE if name != "weft" else None,
                                           text=True, env=os.environ | (env or {})) for c in commands]
        self.facts = {}

    def wait_ready(self):
        self.facts |= self.read("ready")

    def read(self, key):
        """The next line of every process that has this key; sizes are added, of times the longest counts."""
        answers = []
        for p in self.processes:
            answer = {}
            while key not in answer:
                line = p.stdout.readline()
                if not line:
                    raise RuntimeError((p.stderr.read().strip().splitlines() or ["it ended"])[-1] if p.stderr else "it ended")
                answer = json.loads(line)
                self.facts |= answer
            answers.append(answer)
        fold = lambda name: max if name == "seconds" else sum
        return {name: fold(name)(a[name] for a in answers) for name in answers[0]}

    def begin(self, steps=1):
        for p in self.processes:
            p.stdin.write("\n" * steps)
            p.stdin.flush()

    def step(self):
        self.begin()
        return self.end_step()

    @property
    def above_start(self):
        """MB at the most, above what its processes had before they made anything."""
        return (self.peak_kb - self.facts["base_kb"]) / 1024

    def end_step(self):
        answer = self.read("seconds")
        self.peak_kb = answer["peak_kb"]
        return answer["seconds"]

    def end(self):
        for p in self.processes:
            with contextlib.suppress(OSError):
                p.stdin.close()
        for p in self.processes:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
