"""PyTorch's side of bench/compare: the model, tokens, optimizer and protocol of step.cpp.

    yes | python torch_step.py fp32 setup eager threads 1 layers 4 ...

setup: "eager" or "compile", for bf16 with "-autocast" (weights in fp32) or "-master" (weights in bf16, AdamW on fp32 copies).
With `rank` and `port` it is one of two processes joined by gloo and DistributedDataParallel. `device cuda` is for a GPU, on which
"compile-graphs" replays what it compiled as CUDA graphs; memory is then the GPU's, as far as PyTorch has it.
"""
import math
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from says import say, status


def rotate(x, cos, sin):  # x [batch, heads, seq, head_dim], half-split
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Layer(nn.Module):
    """Query, key and value in one product, gate and up in one: faster here than apart."""

    def __init__(self, o):
        super().__init__()
        self.o = o
        self.size = o["hidden"] // o["heads"]
        self.attention_norm = nn.RMSNorm(o["hidden"], eps=1e-5)
        self.qkv = nn.Linear(o["hidden"], (o["heads"] + 2 * o["kv_heads"]) * self.size, bias=False)
        self.out = nn.Linear(o["heads"] * self.size, o["hidden"], bias=False)
        self.mlp_norm = nn.RMSNorm(o["hidden"], eps=1e-5)
        self.gate_up = nn.Linear(o["hidden"], 2 * o["ffn"], bias=False)
        self.down = nn.Linear(o["ffn"], o["hidden"], bias=False)

    def forward(self, x, cos, sin):
        h, kv = self.o["heads"], self.o["kv_heads"]
        qkv = self.qkv(self.attention_norm(x)).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = qkv.split([h, kv, kv], dim=1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=h != kv)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embedding = nn.Embedding(o["vocab"], o["hidden"])
        self.layers = nn.ModuleList(Layer(o) for _ in range(o["layers"]))
        self.norm = nn.RMSNorm(o["hidden"], eps=1e-5)
        self.head = nn.Linear(o["hidden"], o["vocab"], bias=False)
        size = o["hidden"] // o["heads"]
        angle = torch.arange(o["seq"])[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)[None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        for name, p in self.named_parameters():
            if p.dim() > 1:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * o["layers"]) if residual else 0.02)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Gpt2Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads = o["heads"]
        self.attention_norm = nn.LayerNorm(o["hidden"])
        self.qkv = nn.Linear(o["hidden"], 3 * o["hidden"])
        self.out = nn.Linear(o["hidden"], o["hidden"])
        self.mlp_norm = nn.LayerNorm(o["hidden"])
        self.up = nn.Linear(o["hidden"], o["ffn"])
        self.down = nn.Linear(o["ffn"], o["hidden"])

    def forward(self, x):
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Tied embeddings, no dropout."""

    def __init__(self, o):
        super().__init__()
        self.embedding = nn.Embedding(o["vocab"], o["hidden"])
        self.positions = nn.Embedding(o["seq"], o["hidden"])
        self.layers = nn.ModuleList(Gpt2Layer(o) for _ in range(o["layers"]))
        self.norm = nn.LayerNorm(o["hidden"])
        for name, p in self.named_parameters():
            if p.dim() > 1:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * o["layers"]) if residual else 0.02)

    def forward(self, tokens, targets):
        x = self.embedding(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Optimizer:
    """Fused AdamW with the gradient's norm clipped to 1; for a bf16 model on fp32 copies of its weights."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.copies = self.parameters[0].dtype != torch.float32
        self.weights = [p.detach().float() for p in self.parameters] if self.copies else self.parameters
        if self.copies:
            for w in self.weights:
                w.grad = torch.zeros_like(w)
        groups = [dict(params=[w for w in self.weights if w.dim() > 1], weight_decay=0.1),
                  dict(params=[w for w in self.weights if w.dim() == 1], weight_decay=0.0)]
        self.adamw = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, fused=True)

    def step(self):
        if self.copies:
            torch._foreach_copy_([w.grad for w in self.weights], [p.grad for p in self.parameters])
        nn.utils.clip_grad_norm_(self.weights, 1.0, foreach=True)
        self.adamw.step()
        if self.copies:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.weights)
        for p in self.parameters:
            p.grad = None


def main():
    precision, o = sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2]))
    setup, device = o.pop("setup"), o.pop("device", "cpu")
    o = {name: int(number) for name, number in o.items()}
    torch.manual_seed(1)
    torch.set_num_threads(o["threads"])
    peak_kb = lambda: status("VmHWM") if device == "cpu" else torch.cuda.max_memory_reserved() // 1024
    base = peak_kb()
    share = o["batch"]
    with torch.device(device):
        model = Gpt2(o) if o["gpt2"] else Llama(o)
    count = sum(p.numel() for p in model.parameters())
    if setup.endswith("-master"):
        model.bfloat16()
    run = torch.compile(model, mode="reduce-overhead" if "-graphs" in setup else None) if setup.startswith("compile") else model
    rank = o.get("rank", 0)
    if "port" in o:
        os.environ |= dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(o["port"]), WORLD_SIZE="2", RANK=str(rank))
        torch.distributed.init_process_group("gloo")
        run = nn.parallel.DistributedDataParallel(run, gradient_as_bucket_view=True)
        share //= 2
    optimizer = Optimizer(model)
    say(parameters=count)
    say(ready=True, base_kb=base)
    at = torch.arange(o["batch"] * o["seq"], device=device).reshape(o["batch"], o["seq"])[rank * share:(rank + 1) * share]
    first = loss = 0
    for step in range(1, o["steps"] + 1):
        if not sys.stdin.readline():
            return
        begin = time.perf_counter()
        token = lambda i: (step * 31 + i * i * 5 + i * 3) % o["vocab"]
        with torch.autocast(device, torch.bfloat16, enabled=setup.endswith("-autocast")):
            l = run(token(at), token(at + 1))
        l.backward()
        optimizer.step()
        loss = l.item()
        if step == 1:
            first = loss
        say(seconds=time.perf_counter() - begin, peak_kb=peak_kb())
    say(first_loss=first, loss=loss)


main()
