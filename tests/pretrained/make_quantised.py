#!/usr/bin/env python3
"""Writes the folders `nf4`, `nf4_single` and `int8` beside this script: one small Llama with random weights, as transformers
saves it after bitsandbytes has quantised it (nf4: its scales too), and in each folder's expected.json what bitsandbytes makes
of the weights again, as a hash of each tensor's float32, and the logits that transformers computes in float64 with those.

    python3 make_quantised.py        (needs torch, transformers, accelerate and bitsandbytes; the tests don't)
"""
import json
import shutil
import tempfile
from pathlib import Path

import bitsandbytes as bnb
import torch
import transformers as hf

HERE = Path(__file__).parent
BATCH, SEQ, VOCAB = 4, 6, 13
torch.set_num_threads(1)
torch.manual_seed(5)
config = hf.LlamaConfig(vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
                        num_key_value_heads=2, head_dim=32, max_position_embeddings=16)
model = hf.LlamaForCausalLM(config).eval()
with torch.no_grad():
    for p in model.parameters():
        p.add_(0.1 * torch.randn_like(p))


def fnv(tensor):
    h = 0xcbf29ce484222325
    for byte in tensor.contiguous().view(torch.uint8).flatten().tolist():
        h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return f"{h:016x}"


def numbers_of(module):
    """What bitsandbytes makes of a quantised layer's weight, in float32."""
    w = module.weight
    if isinstance(module, bnb.nn.Linear4bit):
        return bnb.functional.dequantize_4bit(w.data, w.quant_state).float()
    return bnb.functional.int8_vectorwise_dequant(w.data, w.SCB if w.SCB is not None else module.state.SCB)


with tempfile.TemporaryDirectory() as plain:
    model.save_pretrained(plain)
    for name, how in (("nf4", dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)),
                      ("nf4_single", dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")), ("int8", dict(load_in_8bit=True))):
        few = hf.AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32, device_map="cpu",
                                                      quantization_config=hf.BitsAndBytesConfig(**how))
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        few.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        weights = {n + ".weight": numbers_of(m) for n, m in few.named_modules() if isinstance(m, (bnb.nn.Linear4bit, bnb.nn.Linear8bitLt))}
        keep, torch.float32, torch.float = torch.float32, torch.float64, torch.float64  # norms and positions are computed in it whatever the type is
        keep_float, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double
        torch.set_default_dtype(torch.float64)
        with_numbers = hf.LlamaForCausalLM(config)
        with_numbers.load_state_dict(model.state_dict() | weights)
        i = torch.arange(BATCH * SEQ)
        tokens = ((31 + i * i * 5 + i * 3) % VOCAB).reshape(BATCH, SEQ)
        logits = with_numbers.double().eval()(tokens).logits
        torch.float32, torch.float, torch.Tensor.float = keep, keep, keep_float
        torch.set_default_dtype(torch.float32)
        expected = dict(hashes={n: fnv(w) for n, w in weights.items()}, logits=[float(f"{x:.12g}") for x in logits.flatten().tolist()],
                        bitsandbytes=bnb.__version__)
        (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
        print(name, len(weights), "tensors", logits.flatten()[:3].tolist())
