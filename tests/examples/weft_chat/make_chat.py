#!/usr/bin/env python3
"""Makes the folder that tests/examples/weft_chat_test.sh talks to, and what transformers answers there: config.json, model.safetensors,
answers.txt. Weights are random, of the first seed with which one of the answers ends by itself. Run from the repository's root, with
transformers and torch from PyPI."""
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

here = Path("tests/examples/weft_chat")
words = PreTrainedTokenizerFast(tokenizer_file="tests/tokenizers/llama3_chat/tokenizer.json")
end = words.convert_tokens_to_ids("<|eot_id|>")
lines = (here / "lines.txt").read_text().splitlines()
TOKENS = 12


def text_of(messages):
    out = "<|begin_of_text|>"
    for role, content in messages:
        out += f"<|start_header_id|>{role}<|end_header_id|>\n\n{content.strip()}<|eot_id|>"
    return out + "<|start_header_id|>assistant<|end_header_id|>\n\n"


def talk(model):
    messages, answers, ended = [("system", "Be brief.")], [], 0
    for line in lines:
        messages.append(("user", line))
        given = words(text_of(messages), add_special_tokens=False, return_tensors="pt").input_ids
        out = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=TOKENS, eos_token_id=end,
                             pad_token_id=end)[0, given.shape[1]:]
        ended += int(out[-1] == end)
        answers.append(words.decode(out, skip_special_tokens=True))
        messages.append(("assistant", answers[-1]))
    return answers, ended


for seed in range(1000):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, hidden_size=16, num_attention_heads=2, num_key_value_heads=1, intermediate_size=24,
                                         vocab_size=422, max_position_embeddings=512, tie_word_embeddings=True, initializer_range=0.5,
                                         dtype=torch.float32)).eval()
    with torch.no_grad():  # halves of characters are never the likeliest
        for token in range(422):
            if token != end and not words.decode([token]).isascii():
                model.model.embed_tokens.weight[token] = 0
    model = model.to(torch.bfloat16).to(torch.float32)
    answers, ended = talk(model)
    if 0 < ended < len(answers) and all("\ufffd" not in a and a.strip() for a in answers) and len(set(answers)) == len(answers):
        break
else:
    raise SystemExit("no seed does")
model.to(torch.bfloat16).save_pretrained(here)
(here / "generation_config.json").unlink(missing_ok=True)
(here / "answers.txt").write_text("".join(a + "\n" for a in answers))
print(f"seed {seed}: {ended} of {len(answers)} answers end by themselves")
