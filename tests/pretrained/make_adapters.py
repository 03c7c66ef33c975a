#!/usr/bin/env python3
"""Writes the folder `adapters` beside this script: LoRA adapters of peft beside the model in `llama3`, with random
numbers, and in expected.json what peft computes with them in float64.

    python3 make_adapters.py        (needs torch, transformers and peft; the tests don't)
"""
import json
import shutil
from pathlib import Path

import torch

torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

import peft
import torch.nn.functional as F
import transformers as hf

HERE = Path(__file__).parent
BATCH, SEQ, VOCAB, STEPS, LR = 4, 6, 13, 10, 1e-2


def batch_of(step):
    token = lambda i: (step * 31 + i * i * 5 + i * 3) % VOCAB
    targets = [-1 if (i + step) % 9 == 4 else token(i + 1) for i in range(BATCH * SEQ)]
    return (torch.tensor([token(i) for i in range(BATCH * SEQ)]).reshape(BATCH, SEQ), torch.tensor(targets))


def rounded(x):
    return [float(f"{v:.12g}") for v in x.flatten().tolist()]


torch.manual_seed(7)
folder = HERE / "adapters"
shutil.rmtree(folder, ignore_errors=True)
base = hf.AutoModelForCausalLM.from_pretrained(HERE / "llama3", dtype=torch.float64)
model = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"],
                                                  task_type="CAUSAL_LM"))
adapters = [p for p in model.parameters() if p.requires_grad]
with torch.no_grad():
    for p in adapters:
        p.copy_((0.3 * torch.randn_like(p)).to(torch.bfloat16).double())
model.save_pretrained(folder)
(folder / "README.md").unlink()
(folder / "adapter_model.safetensors").chmod(0o644)
config = json.loads((folder / "adapter_config.json").read_text())
config["base_model_name_or_path"] = None  # a path of the machine that made it
(folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
optimizer = torch.optim.AdamW(adapters, lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
losses = []
for step in range(1, STEPS + 1):
    tokens, targets = batch_of(step)
    logits = model(tokens).logits
    loss = F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=-1)
    optimizer.zero_grad()
    loss.backward()
    losses.append(loss.item())
    if step == 1:
        first = logits.detach()
        gradients = {n.removeprefix("base_model.model.").replace(".default", ""): rounded(p.grad)
                     for n, p in model.named_parameters() if p.requires_grad}
    norm = sum(float(p.grad.square().sum()) for p in adapters) ** 0.5
    for p in adapters:
        p.grad *= min(1.0, 1.0 / norm)
    optimizer.step()
again = hf.AutoModelForCausalLM.from_pretrained(HERE / "llama3", dtype=torch.float64)
merged = peft.PeftModel.from_pretrained(again, folder).merge_and_unload()
weights = {n: rounded(p) for n, p in merged.named_parameters() if "layers.1" in n and "_proj" in n}
(folder / "expected.json").write_text(json.dumps(
    dict(logits=rounded(first), losses=[float(f"{x:.12g}") for x in losses], gradients=gradients, merged=weights,
         peft=peft.__version__), separators=(",", ":")).replace('],"', '],\n"') + "\n")
print("losses", *(f"{x:.4f}" for x in losses))
