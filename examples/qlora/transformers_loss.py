"""transformers_loss.py FOLDER TEXT LOSS: transformers' loss of a folder on a text, by its tokenizer; the exit code is 1 where it isn't LOSS."""
import sys
from pathlib import Path

import torch
import transformers

transformers.utils.logging.disable_progress_bar()
LENGTH, ROWS = 64, 32  # as examples/09_qlora.cpp has them
folder, path, expected = sys.argv[1:]
model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
text = Path(path).read_bytes()
tokens = tokenizer(text.decode())["input_ids"]
assert tokens == list(text) and tokenizer.decode(tokens) == text.decode(), "the tokenizer's tokens aren't the text's bytes"

tokens = torch.tensor(tokens)
count = (len(tokens) - 1) // (ROWS * LENGTH) * ROWS * LENGTH
with torch.no_grad():
    logits = model(tokens[:count].reshape(-1, LENGTH)).logits
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:count + 1]).item()
print(f"{folder}: {loss:.6f} by transformers {transformers.__version__}")
sys.exit(abs(loss - float(expected)) > 1e-4)  # float32 rounds each by some 1e-6
