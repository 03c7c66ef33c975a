#!/usr/bin/env python3
"""read.py FOLDER: has transformers, bitsandbytes and peft read what write.cpp left in FOLDER, and compares their logits with Weft's.

A case's line says how far apart they are, as parts of the largest logit; the exit code is 1 where that is too far.
"""
import sys
from pathlib import Path

import bitsandbytes as bnb
import peft
import torch
import transformers as hf

hf.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
ROWS, LENGTH, VOCABULARY = 4, 16, 96
CASES = {  # how many weights are in few bits, and which type the others have
    "nf4": (14, torch.float32), "nf4_qwen2": (14, torch.float32), "nf4_qwen3": (14, torch.bfloat16), "nf4_adapters": (14, torch.float32),
    "int8": (14, torch.float32), "int8_mistral": (14, torch.bfloat16), "int8_gpt2": (8, torch.float32)}
i = torch.arange(ROWS * LENGTH)
tokens = ((31 + i * i * 5 + i * 3) % VOCABULARY).reshape(ROWS, LENGTH)


def read(folder):
    model, said = hf.AutoModelForCausalLM.from_pretrained(folder, device_map="cpu", output_loading_info=True)
    left = {k: v for k, v in said.items() if v}
    assert not left, f"{folder}: {left}"
    adapters = folder.with_name("adapters")
    return peft.PeftModel.from_pretrained(model, adapters) if adapters.exists() else model


def in_float32(model):
    """With what isn't in few bits as float32, and codes that stand for float32 and are multiplied in it: transformers refuses float()."""
    for p in model.parameters():
        if p.is_floating_point():
            p.data = p.data.float()
    for m in model.modules():
        if isinstance(m, bnb.nn.Linear4bit):
            m.weight.quant_state.dtype = m.compute_dtype = torch.float32
    return model


def apart(model, right):
    with torch.no_grad():
        logits = model(tokens).logits.double().flatten()
    return ((logits - right).abs().max() / right.abs().max()).item()


bad = 0
for name, (count, stored) in CASES.items():
    folder = Path(sys.argv[1], name)
    right = torch.tensor([float(x) for x in (folder / "logits").read_text().split()], dtype=torch.double)
    as_is = read(folder / "few")  # in the folder's own type
    linear = bnb.nn.Linear4bit if name.startswith("nf4") else bnb.nn.Linear8bitLt
    found = sum(isinstance(m, linear) for m in as_is.modules())
    assert found == count, f"{name}: {found} weights in few bits, not {count}"
    types = {p.dtype for n, p in as_is.named_parameters() if p.is_floating_point() and "lora" not in n}
    assert types == {stored}, f"{name}: {types}, not {stored}"
    # In training mode bitsandbytes multiplies by the numbers that the codes stand for; for text by what is quicker: bf16 on a CPU that has
    # it, and under int8 inputs of 8 bits.
    exact = apart(in_float32(read(folder / "few")).train(), right)
    quick = apart(as_is.eval(), right)
    plain = apart(read(folder / "plain").eval(), right)
    # float32 rounds each sum by 6e-8, which two layers make fifty times more; bf16 and 8 bits by 4e-3, of which twenty times as much was
    # found: codes in wrong places would be about 1. What the numbers before differ by has to be more, or nothing is shown.
    good = exact < 1e-5 and quick < 0.25 and plain > 1e-3
    bad += not good
    print(f"{name}: {exact:.1e} in float32, {quick:.1e} as it is written, {plain:.1e} from the numbers before"
          + ("" if good else "  FAULT"))
sys.exit(bad > 0)
