#!/usr/bin/env python3
"""Writes the folders beside this script: small models of transformers with random weights, as save_pretrained leaves them,
and in expected.json what transformers computes with them in float64.

    python3 make_folders.py [FAMILY...]        (needs torch and transformers; the tests don't)

Per family: logits, every gradient of the first step, and the losses and gradient norms of ten AdamW steps. Gradients go by
Weft's names, joined as its weights lie: [out, in], and GPT-2's, which lie by columns, turned round.
folders_test.cpp holds Weft to these numbers.
"""
import copy
import json
import math
import re
import shutil
import sys
from pathlib import Path

import torch

# Everything in double: transformers computes norms and rotary positions in float32 whatever the model's type is.
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

import torch.nn.functional as F
import transformers as hf

HERE = Path(__file__).parent
BATCH, SEQ, VOCAB, STEPS, CLIP, LR = 4, 6, 13, 10, 1.0, 1e-2
LLAMA = dict(vocab_size=VOCAB, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=16)
GPT2 = dict(vocab_size=VOCAB, n_embd=8, n_inner=12, n_layer=2, n_head=4, n_positions=16, attn_pdrop=0.0, embd_pdrop=0.0,
            resid_pdrop=0.0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8)
FAMILIES = {
    "llama2": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA | dict(num_key_value_heads=4)), torch.float16, {}),
    "llama3": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, rope_parameters=LLAMA3, tie_word_embeddings=True), torch.bfloat16, {}),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig(**LLAMA, head_dim=4, sliding_window=3), torch.bfloat16, {}),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA), torch.bfloat16, dict(max_shard_size="1KB")),
    "qwen2_window": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=3, max_window_layers=1),
                     torch.bfloat16, {}),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**LLAMA, head_dim=4), torch.bfloat16, {}),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2), torch.float16, {}),
    # docs/hugging_face.md reads it by a table of its own.
    "phi3": (hf.Phi3ForCausalLM, hf.Phi3Config(**LLAMA | dict(num_key_value_heads=4), sliding_window=3, bos_token_id=1, eos_token_id=2,
                                               pad_token_id=0), torch.bfloat16, {}),
}
NAMES = [(r"^(model|transformer)\.", ""), (r"^embed_tokens\.weight|^wte\.weight", "embedding"), (r"^wpe\.weight", "positions"),
         (r"^lm_head\.weight", "head"), (r"^h\.", "layers."), (r"^norm\.weight", "norm"), (r"^ln_f\.", "norm."),
         (r"input_layernorm\.weight", "attention_norm"), (r"post_attention_layernorm\.weight", "mlp_norm"),
         (r"\bln_1\.", "attention_norm."), (r"\bln_2\.", "mlp_norm."), (r"self_attn\.|attn\.(?=c_)|mlp\.", ""),
         (r"\bq_norm\.weight", "query_norm"), (r"\bk_norm\.weight", "key_norm"),
         (r"\bq_proj", "query"), (r"\bk_proj", "key"), (r"\bv_proj", "value"), (r"\bo_proj", "out"),
         (r"(gate|up|down)_proj", r"\1"), (r"\bc_fc", "up")]


def weft_names(name, of_mlp):
    """The parameter, or the two or three, that a tensor is."""
    for pattern, to in NAMES + [(r"\bc_proj", "down" if of_mlp else "out")]:
        name = re.sub(pattern, to, name)
    norm = "norm" in name
    if not norm:
        name = re.sub(r"\.weight$", "", re.sub(r"\.bias$", "_bias", name))
    for joined, parts in (("c_attn", ("query", "key", "value")), ("qkv_proj", ("query", "key", "value")), ("gate_up", ("gate", "up"))):
        if joined in name:
            return [name.replace(joined, n) for n in parts]
    return [name]


def gradients(model, family):
    out = {}
    for name, p in model.named_parameters():
        g = p.grad
        if family == "gpt2" and ".c_" in name and g.ndim == 2:
            g = g.T
        names = weft_names(name, ".mlp." in name)
        for n, part in zip(names, g.chunk(len(names))):
            out[n] = part.flatten().tolist()
    return out


def batch_of(step):
    token = lambda i: (step * 31 + i * i * 5 + i * 3) % VOCAB
    targets = [-1 if (i + step) % 9 == 4 else token(i + 1) for i in range(BATCH * SEQ)]
    return (torch.tensor([token(i) for i in range(BATCH * SEQ)]).reshape(BATCH, SEQ), torch.tensor(targets))


def rounded(x):
    return [float(f"{v:.12g}") for v in x]


for family in sys.argv[1:] or FAMILIES:
    make, config, stored, how = FAMILIES[family]
    torch.manual_seed(len(family))
    model = make(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((p + 0.3 * torch.randn_like(p)).to(stored).double())
    folder = HERE / family
    shutil.rmtree(folder, ignore_errors=True)
    # A copy: that of the stored type rounds the rotary frequencies too.
    copy.deepcopy(model).to(stored).save_pretrained(folder, **how)
    (folder / "generation_config.json").unlink()

    decays = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([dict(params=decays, weight_decay=0.1), dict(params=others, weight_decay=0.0)], lr=LR,
                                  betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        tokens, targets = batch_of(step)
        logits = model(tokens).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        norms.append(math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters())))
        losses.append(loss.item())
        if step == 1:
            first = dict(logits=rounded(logits.flatten().tolist()),
                         gradients={n: rounded(g) for n, g in gradients(model, family).items()})
        for p in model.parameters():
            p.grad *= min(1.0, CLIP / norms[-1])
        optimizer.step()
    expected = first | dict(losses=rounded(losses), norms=rounded(norms), transformers=hf.__version__)
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print(family, "losses", *(f"{x:.4f}" for x in losses), "norms", *(f"{x:.3f}" for x in norms))
