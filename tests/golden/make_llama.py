#!/usr/bin/env python3
"""Writes llama.inc and llama_tied.inc: what PyTorch, in float64 on the CPU, computes for a small Llama.

    python3 make_llama.py          (needs torch and numpy; the tests don't)

Per case: logits, loss, gradient norm and every gradient of the first step, the losses and norms of ten AdamW steps, and
sums over the weights after them. llama_test.cpp holds Weft to these numbers.

Weights are stored nowhere: both sides compute them as Philox-4x32-10 of (seed, FNV-1a of the name, index), Box-Muller,
times a deviation; this file has its own version of that.

Layouts. A weight of Weft, row-major, is the weight of torch.nn.functional.linear with neighbouring dimensions joined:
query [heads, head_dim, hidden] is Hugging Face's q_proj.weight [heads * head_dim, hidden], key and value likewise with
kv_heads, out [hidden, heads, head_dim] is o_proj.weight [hidden, heads * head_dim]; gate, up, down, embedding, norms and
head have the same dimensions. Rotary positions are half-split, as Hugging Face's Llama has them: dimension i turns with
i + head_dim / 2. Query head h reads key and value head h // (heads / kv_heads).
"""
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

CASES = {
    "llama": dict(layers=2, hidden=16, heads=4, kv_heads=2, ffn=24, vocab=24, batch=4, seq=6, tied=0, seed=5, clip=3.3),
    "llama_tied": dict(layers=1, hidden=8, heads=2, kv_heads=2, ffn=16, vocab=20, batch=2, seq=8, tied=1, seed=11, clip=1.3),
}
SHARED = dict(theta=10000.0, eps=1e-5, stddev=0.25, steps=10, warmup=3, floor=0.1,
              lr=1e-2, beta1=0.9, beta2=0.95, adam_eps=1e-8, decay=0.1)


# Weights: the numbers of include/weft/tensor/random.hpp.

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


def make_weights(c):
    out_stddev = c["stddev"] / math.sqrt(2 * c["layers"])
    hidden, ffn, size = c["hidden"], c["ffn"], c["hidden"] // c["heads"]
    shapes = {"embedding": ([c["vocab"], hidden], c["stddev"])}
    for i in range(c["layers"]):
        p = f"layers.{i}."
        shapes[p + "attention_norm"] = ([hidden], 0)
        shapes[p + "query"] = ([c["heads"] * size, hidden], c["stddev"])
        shapes[p + "key"] = ([c["kv_heads"] * size, hidden], c["stddev"])
        shapes[p + "value"] = ([c["kv_heads"] * size, hidden], c["stddev"])
        shapes[p + "out"] = ([hidden, c["heads"] * size], out_stddev)
        shapes[p + "mlp_norm"] = ([hidden], 0)
        shapes[p + "gate"] = ([ffn, hidden], c["stddev"])
        shapes[p + "up"] = ([ffn, hidden], c["stddev"])
        shapes[p + "down"] = ([hidden, ffn], out_stddev)
    shapes["norm"] = ([hidden], 0)
    if not c["tied"]:
        shapes["head"] = ([c["vocab"], hidden], c["stddev"])
    weights = {}
    for name, (shape, stddev) in shapes.items():
        numbers = stddev * normals(c["seed"], name, math.prod(shape)) if stddev else np.ones(math.prod(shape))
        weights[name] = torch.tensor(numbers).reshape(shape).requires_grad_()
    return weights


# The model, of PyTorch's own operators; only the rotation is written out.

def rotate(x, theta):
    """x [batch, heads, seq, head_dim]"""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * theta ** (-torch.arange(half) / half)[None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)


def logits_of(c, w, tokens):
    norm = lambda x, weight: F.rms_norm(x, (c["hidden"],), weight, c["eps"])
    split = lambda x: x.unflatten(-1, (-1, c["hidden"] // c["heads"])).transpose(1, 2)
    x = F.embedding(tokens, w["embedding"])
    for i in range(c["layers"]):
        p = f"layers.{i}."
        h = norm(x, w[p + "attention_norm"])
        q = rotate(split(F.linear(h, w[p + "query"])), c["theta"])
        k = rotate(split(F.linear(h, w[p + "key"])), c["theta"])
        v = split(F.linear(h, w[p + "value"]))
        group = c["heads"] // c["kv_heads"]
        a = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True)
        x = x + F.linear(a.transpose(1, 2).flatten(2), w[p + "out"])
        h = norm(x, w[p + "mlp_norm"])
        x = x + F.linear(F.silu(F.linear(h, w[p + "gate"])) * F.linear(h, w[p + "up"]), w[p + "down"])
    return F.linear(norm(x, w["norm"]), w["embedding" if c["tied"] else "head"])


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


def run(c):
    w = make_weights(c)
    groups = [dict(params=[p for p in w.values() if p.dim() > 1], weight_decay=c["decay"]),
              dict(params=[p for p in w.values() if p.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=c["lr"], betas=(c["beta1"], c["beta2"]), eps=c["adam_eps"])
    out, losses, norms = {"config": [c[k] for k in [*CASES["llama"], *SHARED]]}, [], []
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
            out |= {"gradient " + name: p.grad.flatten().tolist() for name, p in w.items()}
        for p in w.values():
            p.grad *= min(1.0, c["clip"] / norm)
        for group in optimizer.param_groups:
            group["lr"] = c["lr"] * schedule(c, step - 1)
        optimizer.step()
    out["losses"], out["norms"] = losses, norms
    out |= {"weights " + name: checksums(p.detach()) for name, p in w.items()}
    return out


def write(path, numbers):
    lines = [f"// Made by make_llama.py with PyTorch {torch.__version__.split('+')[0]}, float64. clang-format off",
             "// config: " + " ".join([*CASES["llama"], *SHARED])]
    for name, values in numbers.items():
        lines.append(f'{{"{name}", {{')
        row = ""
        for v in values:
            text = f"{v:.11g},"
            if len(row) + len(text) > 118:
                lines.append(row)
                row = ""
            row += text
        lines.append(row + "}},")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    for name, case in CASES.items():
        numbers = run(case | SHARED)
        write(Path(__file__).parent / (name + ".inc"), numbers)
        print(name, "losses", *(f"{x:.4f}" for x in numbers["losses"]), "norms", *(f"{x:.3f}" for x in numbers["norms"]))
