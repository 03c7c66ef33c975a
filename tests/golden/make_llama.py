#!/usr/bin/env python3
"""Writes llama.inc and llama_tied.inc: what PyTorch, in float64 on the CPU, computes for a small Llama.

    python3 make_llama.py          (needs torch and numpy; the tests don't)

Per case: logits, loss, gradient norm and every gradient of the first step, the losses and norms of ten AdamW steps, and
sums over the weights after them. llama_test.cpp holds Weft to these numbers.

Layouts. A weight of Weft, row-major, is the weight of torch.nn.functional.linear with neighbouring dimensions joined:
query [heads, head_dim, hidden] is Hugging Face's q_proj.weight [heads * head_dim, hidden], key and value likewise with
kv_heads, out [hidden, heads, head_dim] is o_proj.weight [hidden, heads * head_dim]; gate, up, down, embedding, norms and
head have the same dimensions. Rotary positions are half-split, as Hugging Face's Llama has them: dimension i turns with
i + head_dim / 2. Query head h reads key and value head h // (heads / kv_heads).
"""
import math

import torch
import torch.nn.functional as F

from pytorch import SHARED, run, write

CASES = {
    "llama": dict(layers=2, hidden=16, heads=4, kv_heads=2, ffn=24, vocab=24, batch=4, seq=6, tied=0, seed=5, clip=3.3),
    "llama_tied": dict(layers=1, hidden=8, heads=2, kv_heads=2, ffn=16, vocab=20, batch=2, seq=8, tied=1, seed=11, clip=1.3),
}


def shapes_of(c):
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
    return shapes


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


if __name__ == "__main__":
    for name, case in CASES.items():
        c = case | dict(theta=10000.0) | SHARED
        write("make_llama.py", name, run(c, shapes_of(c), logits_of))
