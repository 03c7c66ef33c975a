"""How a competitor that is written in Python answers (side.py): lines of JSON, with the kB that /proc says of it."""
import json


def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1])


def say(**what):
    print(json.dumps(what), flush=True)
