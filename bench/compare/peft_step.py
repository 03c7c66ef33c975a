"""peft's side of adapters.py: the model, tokens, optimizer and protocol of adapters.cpp.

    yes | python peft_step.py bf16 adapters-fp32 THREADS TOKENS SEQUENCES FOLDER

fp32, bf16, int8 or nf4; adapters-fp32 as peft makes them beside 16-bit weights, adapters-bf16 in the weights' own type. FOLDER: of a model,
which is made where it isn't there, for bitsandbytes quantises while it loads.
"""
import os
import sys
import time
import warnings

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model

from says import say, status

form, setup, threads, seq, batch, folder = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6]
hf.logging.set_verbosity_error()
warnings.filterwarnings("ignore")
torch.manual_seed(1)
torch.set_num_threads(threads)
base = status("VmHWM")
vocab = 32000
kind = torch.float32 if form == "fp32" else torch.bfloat16
config = hf.LlamaConfig(num_hidden_layers=12, hidden_size=768, num_attention_heads=12, num_key_value_heads=12, intermediate_size=2048,
                        vocab_size=vocab, max_position_embeddings=seq, tie_word_embeddings=False, dtype=kind)
if form in ("int8", "nf4"):
    if not os.path.exists(folder):  # by another process, whose memory isn't counted
        if os.fork() == 0:
            hf.LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
            os._exit(0)
        os.wait()
    few = (hf.BitsAndBytesConfig(load_in_8bit=True) if form == "int8" else
           hf.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=kind))
    model = hf.AutoModelForCausalLM.from_pretrained(folder, quantization_config=few, dtype=kind, device_map="cpu")
else:
    model = hf.LlamaForCausalLM(config).to(kind)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear"),
                       autocast_adapter_dtype=setup == "adapters-fp32")
model.train()
weights = [p for p in model.parameters() if p.requires_grad]
adamw = torch.optim.AdamW(weights, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
say(trained=sum(p.numel() for p in weights))
say(ready=True, base_kb=base)
at = torch.arange(batch * seq).reshape(batch, seq)
step = 0
while sys.stdin.readline():
    begin = time.perf_counter()
    step += 1
    token = lambda i: (step * 31 + i * i * 5 + i * 3) % vocab
    logits = model(input_ids=token(at), use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float() if kind == torch.float32 else logits.flatten(0, 1), token(at + 1).flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
    adamw.step()
    adamw.zero_grad(set_to_none=True)
    loss.item()
    say(seconds=time.perf_counter() - begin, peak_kb=status("VmHWM"))
