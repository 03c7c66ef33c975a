#!/usr/bin/env python3
"""Writes the folders `nf4`, `nf4_single` and `int8` beside this script: one small Llama with random weights, as transformers
saves it after bitsandbytes has quantised it (nf4: its scales too), and in each folder's expected.json what bitsandbytes makes
of the weights again, as a hash of each tensor's float32, and the logits that transformers computes in float64 with those.
`gpt2_nf4` and `gpt2_int8` are the same of a GPT-2, whose matrices are quantised by rows.

    python3 make_quantised.py [llama] [gpt2]        (needs torch, transformers, accelerate and bitsandbytes; the tests don't)
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import bitsandbytes as bnb
import torch
import transformers as hf

HERE = Path(__file__).parent
BATCH, SEQ, VOCAB = 4, 6, 13
torch.set_num_threads(1)


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


NF4 = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
FAMILIES = {
    "llama": (hf.LlamaForCausalLM, 5, hf.LlamaConfig(vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
              num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=16),
              (("nf4", NF4), ("nf4_single", dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")), ("int8", dict(load_in_8bit=True)))),
    "gpt2": (hf.GPT2LMHeadModel, 4, hf.GPT2Config(vocab_size=VOCAB, n_embd=64, n_layer=1, n_head=4, n_positions=16, attn_pdrop=0.0,
             embd_pdrop=0.0, resid_pdrop=0.0), (("gpt2_nf4", NF4), ("gpt2_int8", dict(load_in_8bit=True)))),
}


def make(model_class, seed, config, hows, plain):
    torch.manual_seed(seed)
    model = model_class(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(plain)
    for name, how in hows:
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
        with_numbers = model_class(config)
        turned = {n: w.T if "h." in n and name.startswith("gpt2") else w for n, w in weights.items()}  # Conv1D has columns
        with_numbers.load_state_dict(model.state_dict() | turned)
        i = torch.arange(BATCH * SEQ)
        tokens = ((31 + i * i * 5 + i * 3) % VOCAB).reshape(BATCH, SEQ)
        logits = with_numbers.double().eval()(tokens).logits
        torch.float32, torch.float, torch.Tensor.float = keep, keep, keep_float
        torch.set_default_dtype(torch.float32)
        expected = dict(hashes={n: fnv(w) for n, w in weights.items()}, logits=[float(f"{x:.12g}") for x in logits.flatten().tolist()],
                        bitsandbytes=bnb.__version__)
        (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
        print(name, len(weights), "tensors", logits.flatten()[:3].tolist())


for family in sys.argv[1:] or FAMILIES:
    with tempfile.TemporaryDirectory() as plain:
        make(*FAMILIES[family], plain)
