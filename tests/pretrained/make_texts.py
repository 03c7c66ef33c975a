#!/usr/bin/env python3
"""Writes texts.json into the folders beside this script: what transformers' generate() continues prompts with, greedily and in float64,
one prompt at a time.

    python3 make_texts.py          (needs torch and transformers; the tests don't)

texts_test.cpp holds Weft to them.
"""
import json
from pathlib import Path

import torch

# As in make_folders.py: transformers computes norms and rotary positions in float32 whatever the model's type is.
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

import transformers as hf

VOCAB, POSITIONS = 13, 16
PROMPTS = [[3], [1, 4, 1, 5, 9, 2, 6], [5, 3], [12, 11, 10, 9], [0, 0, 0, 0, 0], [7, 8]]

for config in sorted(Path(__file__).parent.glob("*/config.json")):
    if not (config.parent / "expected.json").exists():
        continue
    model = hf.AutoModelForCausalLM.from_pretrained(config.parent, dtype=torch.float64).eval()
    texts = []
    for prompt in PROMPTS:
        with torch.no_grad():
            out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), do_sample=False,
                                 max_length=POSITIONS, eos_token_id=None, pad_token_id=0)
        texts.append(out[0, len(prompt):].tolist())
    (config.parent / "texts.json").write_text(json.dumps(dict(prompts=PROMPTS, texts=texts)) + "\n")
    print(config.parent.name, *texts)
