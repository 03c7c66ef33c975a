"""What the Python programs of bench/bugs share: their numbers, and how they say what happened.

A program is run as `python PROGRAM` (the right version) or `python PROGRAM wrong` (the fault). It ends with one line of JSON on
stdout: {"numbers": [x]}, or {"refused": {"phase": ..., "error": ..., "says": ...}} where the library refused it. run.py reads that line.
"""

import json
import os
import sys

import numpy as np

WRONG = sys.argv[1:] == ["wrong"]


def data(seed, *shape):
    """The numbers of tensor `seed`: eighths between -11/8 and 11/8, the same in C++ (numbers.hpp)."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((37 * i + 11 * seed) % 23 - 11) / 8.0).astype(np.float32).reshape(shape)


def chosen(batch, seq, experts):
    """Which expert each token is sent to, as ones and zeros [batch, seq, expert]; the first experts are sent more."""
    i = np.arange(batch * seq * experts, dtype=np.int64)
    token, expert = i // experts, i % experts
    return (expert == (token * token % 7) % experts).astype(np.float32).reshape(batch, seq, experts)


def targets(tokens, vocab):
    """The right next token of each."""
    return 5 * np.arange(tokens, dtype=np.int64) % vocab


def counted(tokens):
    """Which of the tokens count: all of the first half, one of the second."""
    return (np.arange(tokens) <= tokens // 2).astype(np.float32)


def number(*ranks):
    """Each rank's number, or the one that all have."""
    print(json.dumps({"numbers": sorted({float(x) for x in ranks})}), flush=True)


def refused(phase, error, says):
    """Ends the program: the library refused it in this phase (trace, check or run), with an error of this type."""
    print(json.dumps({"refused": {"phase": phase, "error": error, "says": " ".join(says.split())}}), flush=True)
    sys.stderr.flush()
    os._exit(0)
