"""What make_llama.py and make_gpt2.py share: weights, batches, ten steps of AdamW, and the file that the numbers go to.

Weights are stored nowhere: both sides compute them as Philox-4x32-10 of (seed, FNV-1a of the name, index), Box-Muller,
times a deviation; this file has its own version of that.
"""
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

SHARED = dict(eps=1e-5, stddev=0.25, steps=10, warmup=3, floor=0.1, lr=1e-2, beta1=0.9, beta2=0.95, adam_eps=1e-8, decay=0.1)


# Weights: the numbers of include/weft/core/random.hpp.

def stream_of(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) % 2**64
    return h


def philox(seed, stream, counter):
    """Four 32-bit words for each counter: [n, 4]."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1 = counter & mask, counter >> shift
    c2, c3 = np.full_like(counter, stream & 0xFFFFFFFF), np.full_like(counter, stream >> 32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & mask, (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack([c0, c1, c2, c3], axis=1)


def normals(seed, name, n):
    words = philox(seed, stream_of(name), np.arange((n + 3) // 4, dtype=np.uint64)).astype(np.float64)
    radius = np.sqrt(-2 * np.log((words[:, 0::2] + 1) * 2.0**-32))
    angle = words[:, 1::2] * (2 * math.pi * 2.0**-32)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return pairs.reshape(-1)[:n].astype(np.float32).astype(np.float64)


def make_weights(seed, shapes):
    """shapes: name -> (extents, deviation); a deviation of 0 gives ones, of None zeros."""
    weights = {}
    for name, (shape, stddev) in shapes.items():
        n = math.prod(shape)
        numbers = stddev * normals(seed, name, n) if stddev else np.full(n, 0.0 if stddev is None else 1.0)
        weights[name] = torch.tensor(numbers).reshape(shape).requires_grad_()
    return weights


def decays(name):
    """Neither norms nor biases."""
    return "norm" not in name and not name.endswith("bias")


def batch_of(c, step):
    """Tokens and targets; every ninth target is missing (-1), so that the count of tokens matters."""
    n = c["batch"] * c["seq"]
    token = lambda i: (step * 31 + i * i * 5 + i * 3) % c["vocab"]
    tokens = [token(i) for i in range(n)]
    targets = [-1 if (i + step) % 9 == 4 else token(i + 1) for i in range(n)]
    shape = (c["batch"], c["seq"])
    return torch.tensor(tokens).reshape(shape), torch.tensor(targets).reshape(shape)


def schedule(c, step):
    if step < c["warmup"]:
        return (step + 1) / c["warmup"]
    progress = (step - c["warmup"]) / (c["steps"] - c["warmup"])
    return c["floor"] + (1 - c["floor"]) * 0.5 * (1 + math.cos(math.pi * progress))


def checksums(x):
    """Sum, sum of squares, and a sum that notices when two elements are exchanged."""
    at = (torch.arange(x.numel()) * 7919 % 1009) / 1009 - 0.5
    return [float(x.sum()), float(x.square().sum()), float((x.flatten() * at).sum())]


def run(c, shapes, logits_of, vanishing=()):
    """Logits, gradients of the first step, losses and norms of all, and sums over the weights after them.

    vanishing: endings of names whose gradient is zero but for rounding. It is written as zero; what AdamW makes of the
    rounding's sign is not written."""
    w = make_weights(c["seed"], shapes)
    vanishes = lambda name: name.endswith(tuple(vanishing)) if vanishing else False
    groups = [dict(params=[p for name, p in w.items() if decays(name)], weight_decay=c["decay"]),
              dict(params=[p for name, p in w.items() if not decays(name)], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=c["lr"], betas=(c["beta1"], c["beta2"]), eps=c["adam_eps"])
    out, losses, norms = {"config " + key: [value] for key, value in c.items()}, [], []
    for step in range(1, c["steps"] + 1):
        tokens, targets = batch_of(c, step)
        logits = logits_of(c, w, tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)  # the mean over what has a target
        optimizer.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in w.values()))
        losses.append(loss.item())
        norms.append(norm)
        if step == 1:
            out["logits"] = logits.flatten().tolist()
            for name, p in w.items():
                if vanishes(name):
                    assert float(p.grad.abs().max()) < 1e-14, name
                    p.grad *= 0
                out["gradient " + name] = p.grad.flatten().tolist()
        for p in w.values():
            p.grad *= min(1.0, c["clip"] / norm)
        for group in optimizer.param_groups:
            group["lr"] = c["lr"] * schedule(c, step - 1)
        optimizer.step()
    out["losses"], out["norms"] = losses, norms
    out |= {"weights " + name: checksums(p.detach()) for name, p in w.items() if not vanishes(name)}
    return out


def write(script, name, numbers):
    lines = [f"// Made by {script} with PyTorch {torch.__version__.split('+')[0]}, float64. clang-format off"]
    for key, values in numbers.items():
        lines.append(f'{{"{key}", {{')
        row = ""
        for v in values:
            text = f"{v:.11g},"
            if len(row) + len(text) > 118:
                lines.append(row)
                row = ""
            row += text
        lines.append(row + "}},")
        if len(values) == 1:
            lines[-2:] = [lines[-2] + lines[-1]]
    (Path(__file__).parent / (name + ".inc")).write_text("\n".join(lines) + "\n")
    print(name, "losses", *(f"{x:.4f}" for x in numbers["losses"]), "norms", *(f"{x:.3f}" for x in numbers["norms"]))
