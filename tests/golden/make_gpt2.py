#!/usr/bin/env python3
"""Writes gpt2.inc and gpt2_untied.inc: what PyTorch, in float64 on the CPU, computes for a small GPT-2 without dropout.

    python3 make_gpt2.py           (needs torch and numpy; the tests don't)

The same numbers as make_llama.py writes. gpt2_test.cpp holds Weft to them.

Layouts, as for Llama: query [heads, head_dim, hidden] joined to [hidden, hidden] is a third of Hugging Face's c_attn.weight,
which is stored transposed, [in, out]; out, up and down are c_proj, c_fc and the mlp's c_proj, transposed likewise. GELU is
the tanh form (Hugging Face's gelu_new). Position p is added as row p of `positions`, of which a sequence uses the first.

A bias added to all keys adds the same to all of a query's logits, which softmax doesn't see: its gradient vanishes.
"""
import math

import torch
import torch.nn.functional as F

from pytorch import SHARED, run, write

CASES = {
    "gpt2": dict(layers=2, hidden=12, heads=4, ffn=16, vocab=20, max_seq=8, batch=4, seq=6, tied=1, seed=6, clip=2.5),
    "gpt2_untied": dict(layers=1, hidden=8, heads=2, ffn=12, vocab=16, max_seq=8, batch=2, seq=8, tied=0, seed=12, clip=1.5),
}


def shapes_of(c):
    out_stddev = c["stddev"] / math.sqrt(2 * c["layers"])
    hidden, ffn = c["hidden"], c["ffn"]
    shapes = {"embedding": ([c["vocab"], hidden], c["stddev"]), "positions": ([c["max_seq"], hidden], c["stddev"])}

    def norm(name):
        shapes[name + ".weight"], shapes[name + ".bias"] = ([hidden], 0), ([hidden], None)

    for i in range(c["layers"]):
        p = f"layers.{i}."
        norm(p + "attention_norm")
        norm(p + "mlp_norm")
        for name in ("query", "key", "value"):
            shapes[p + name], shapes[p + name + "_bias"] = ([hidden, hidden], c["stddev"]), ([hidden], None)
        shapes[p + "out"], shapes[p + "out_bias"] = ([hidden, hidden], out_stddev), ([hidden], None)
        shapes[p + "up"], shapes[p + "up_bias"] = ([ffn, hidden], c["stddev"]), ([ffn], None)
        shapes[p + "down"], shapes[p + "down_bias"] = ([hidden, ffn], out_stddev), ([hidden], None)
    norm("norm")
    if not c["tied"]:
        shapes["head"] = ([c["vocab"], hidden], c["stddev"])
    return shapes


def logits_of(c, w, tokens):
    norm = lambda x, name: F.layer_norm(x, (c["hidden"],), w[name + ".weight"], w[name + ".bias"], c["eps"])
    linear = lambda x, name: F.linear(x, w[name], w[name + "_bias"])
    split = lambda x: x.unflatten(-1, (c["heads"], -1)).transpose(1, 2)
    x = F.embedding(tokens, w["embedding"]) + w["positions"][: tokens.shape[1]]
    for i in range(c["layers"]):
        p = f"layers.{i}."
        h = norm(x, p + "attention_norm")
        q, k, v = (split(linear(h, p + name)) for name in ("query", "key", "value"))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(a.transpose(1, 2).flatten(2), p + "out")
        x = x + linear(F.gelu(linear(norm(x, p + "mlp_norm"), p + "up"), approximate="tanh"), p + "down")
    return F.linear(norm(x, "norm"), w["embedding" if c["tied"] else "head"])


if __name__ == "__main__":
    for name, case in CASES.items():
        c = case | SHARED
        write("make_gpt2.py", name, run(c, shapes_of(c), logits_of, vanishing=["key_bias"]))
