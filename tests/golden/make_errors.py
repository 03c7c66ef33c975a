#!/usr/bin/env python3
"""Writes errors.inc: how far PyTorch's operators on the CPU, in float32 and bfloat16, are from its own float64.

    python3 make_errors.py          (needs torch and numpy; the tests don't)

A line is an operator's output or gradient, the data, the type, the error and its measure: `each`, the largest relative error of
a number, or `whole`, the largest difference. errors_test.cpp puts the same data through Weft's operators.
"""
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)

# Data: extents of [batch, hidden], and number i of argument `salt`, from a hash u in [0, 1).
DATA = {
    "ordinary": ((8, 500), lambda u: 8 * u - 4),
    "equal": ((8, 500), lambda u: 0.1 + 0 * u),
    "offset": ((8, 500), lambda u: 1000 + u),
    "shifted": ((8, 500), lambda u: 30 + u),  # products of two of `offset` are noise in fp32
    "large": ((8, 500), lambda u: 2e4 * (u - 0.5)),
    "tiny": ((8, 500), lambda u: (u - 0.5) * 2.0**-124),
    "long": ((2, 100003), lambda u: 8 * u - 4),
    "tall": ((100003, 2), lambda u: 0.1 + 0 * u),
    "one": ((5, 1), lambda u: 8 * u - 4),
}


def hashed(n, salt):
    x = np.arange(n, dtype=np.uint32) * np.uint32(16) + np.uint32(salt)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) / 2.0**32


class Trial:
    """One operator over one kind of data in one type, or in float64 over the numbers of that type."""

    def __init__(self, data, narrow, wide):
        self.extents, self.number = DATA[data]
        self.narrow, self.type = narrow, torch.float64 if wide else narrow
        self.made = {}

    def given(self, salt, extents=None, number=None, positive=False):
        extents = extents or self.extents
        numbers = (number or self.number)(hashed(math.prod(extents), salt))
        x = torch.tensor(np.abs(numbers) if positive else numbers).reshape(extents)
        return x.to(self.narrow).to(self.type).requires_grad_()

    def ordinary(self, salt, extents=None):
        return self.given(salt, extents, DATA["ordinary"][1])

    def keep(self, y, **inputs):
        """An output, and the inputs' gradients of sum(y * dy)."""
        self.made["y"] = y
        dy = self.ordinary(9, list(y.shape)).detach() if y.dim() else None
        grads = torch.autograd.grad(y, list(inputs.values()), dy)
        self.made.update({"d" + name: g for name, g in zip(inputs, grads)})


def unary(f, positive=False):
    def run(t):
        x = t.given(1, positive=positive)
        t.keep(f(x), x=x)

    return run


def binary(f):
    def run(t):
        a, b = t.given(1), t.given(2, positive=True)
        t.keep(f(a, b), a=a, b=b)

    return run


def rms_norm(t):
    x, w = t.given(1), t.ordinary(2, t.extents[1:])
    t.keep(F.rms_norm(x, t.extents[1:], w, 1e-5), x=x, w=w)


def layer_norm(t):
    x, w, b = t.given(1), t.ordinary(2, t.extents[1:]), t.ordinary(3, t.extents[1:])
    t.keep(F.layer_norm(x, t.extents[1:], w, b, 1e-5), x=x, w=w, b=b)


def cross_entropy(t):
    x = t.given(1)
    t.keep(F.cross_entropy(x, torch.arange(t.extents[0]) % t.extents[1], reduction="sum"), x=x)


def contract(t):
    a, b = t.given(1), t.ordinary(2, (3, t.extents[1]))
    t.keep(F.linear(a, b), a=a, b=b)


def embedding(t):
    table = t.given(1, (2, t.extents[1]))
    t.keep(F.embedding(torch.arange(t.extents[0]) % 2, table), table=table)


def attention(t):
    shape = (1, 40, 2, 16)
    q, k, v = (t.given(i, shape) for i in (1, 2, 3))
    of = [x.transpose(1, 2) for x in (q, k, v)]
    t.keep(F.scaled_dot_product_attention(*of, is_causal=True).transpose(1, 2), q=q, k=k, v=v)


EVERY = ["ordinary", "equal", "offset", "large", "tiny"]
ROWS = EVERY + ["long", "tall", "one"]
OPERATORS = {
    "exp": (unary(torch.exp), EVERY),
    "log": (unary(torch.log, True), EVERY),
    "sqrt": (unary(torch.sqrt, True), EVERY),
    "rsqrt": (unary(torch.rsqrt, True), EVERY),
    "reciprocal": (unary(torch.reciprocal), EVERY),
    "square": (unary(torch.square), EVERY),
    "abs": (unary(torch.abs), EVERY),
    "tanh": (unary(torch.tanh), EVERY),
    "sigmoid": (unary(torch.sigmoid), EVERY),
    "relu": (unary(torch.relu), EVERY),
    "silu": (unary(F.silu), EVERY),
    "gelu": (unary(lambda x: F.gelu(x, approximate="tanh")), EVERY),
    "gelu_exact": (unary(F.gelu), EVERY),
    "scale": (unary(lambda x: x * 0.3), EVERY),
    "plus": (binary(lambda a, b: a + b), EVERY),
    "times": (binary(lambda a, b: a * b), EVERY),
    "over": (binary(lambda a, b: a / b), EVERY),
    "swiglu": (binary(lambda a, b: F.silu(a) * b), EVERY),
    "sum": (unary(lambda x: x.sum(1)), ROWS),
    "sum_rows": (unary(lambda x: x.sum(0)), ROWS),
    "mean": (unary(lambda x: x.mean(1)), ROWS),
    "softmax": (unary(lambda x: F.softmax(x, 1)), ROWS),
    "rms_norm": (rms_norm, ROWS),
    "layer_norm": (layer_norm, ROWS),
    "cross_entropy": (cross_entropy, ROWS),
    "contract": (contract, ROWS),
    "embedding": (embedding, ROWS),
    "attention": (attention, ["ordinary", "equal", "shifted", "large", "tiny"]),
}


def error(got, exact, type, each):
    got, exact = got.detach().double().flatten(), exact.detach().double().flatten()
    beyond = exact.abs() > torch.finfo(type).max
    exact = torch.where(beyond, torch.copysign(torch.tensor(math.inf).double(), exact), exact)
    same = (got == exact) | (got.isnan() & exact.isnan())
    off = torch.where(same, torch.zeros_like(got), (got - exact).abs())
    if not off.isfinite().all():
        return math.inf
    size = torch.where(exact.isfinite(), exact.abs(), torch.zeros_like(exact))
    return (off / size.clamp(min=torch.finfo(type).tiny) if each else off).max().item()


lines = []
for name, (run, kinds) in OPERATORS.items():
    for data in kinds:
        for type in (torch.float32, torch.bfloat16):
            narrow, wide = Trial(data, type, False), Trial(data, type, True)
            run(narrow), run(wide)
            for what in wide.made:
                each = kinds is EVERY
                e = error(narrow.made[what], wide.made[what], type, each)
                number = "INFINITY" if math.isinf(e) else f"{e:.3g}"
                named = (name, what, data, "fp32" if type is torch.float32 else "bf16", "each" if each else "whole")
                lines.append("{" + ", ".join(f'"{word}"' for word in named) + f", {number}}},")
head = f"// Written by make_errors.py with PyTorch {torch.__version__.split('+')[0]}.\n"
Path(__file__).with_name("errors.inc").write_text(head + "\n".join(lines) + "\n")
