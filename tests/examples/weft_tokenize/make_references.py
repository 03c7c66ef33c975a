#!/usr/bin/env python3
"""Writes into the folder of this script, for weft_tokenize_test.sh: texts.jsonl and their tokens as the package tokenizers makes them,
texts.tokens, a line a document; chats.jsonl, chats.tokens and chats.loss: what tokenizers/make_chats.py had of transformers.

    python3 make_references.py     (needs tokenizers; the tests don't)
"""
import json
from pathlib import Path

from tokenizers import Tokenizer

HERE = Path(__file__).parent
TOKENIZERS = HERE.parent.parent / "tokenizers"


def write(name, rows):
    (HERE / name).write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))


t = Tokenizer.from_file(str(TOKENIZERS / "llama3_chat" / "tokenizer.json"))
texts = [row[0] for row in json.loads((TOKENIZERS / "llama3" / "expected.json").read_text())]
end = t.token_to_id("<|eot_id|>")
with open(HERE / "texts.jsonl", "w") as f:
    for i, text in enumerate(texts):
        f.write(json.dumps({"n": i, "text": text}, ensure_ascii=i % 2 == 0) + "\n")
rows = [t.encode(text).ids for text in texts if text]
write("texts.tokens", [row if row[-1] == end else row + [end] for row in rows])

chats = [c for c in json.loads((TOKENIZERS / "chats.json").read_text()) if c["format"] == "llama3"]
shared = {"user": "human", "assistant": "gpt", "system": "system"}
with open(HERE / "chats.jsonl", "w") as f:
    for i, c in enumerate(chats):
        if i % 2:
            said = {"conversations": [{"from": shared[m["role"]], "value": m["content"]} for m in c["messages"]]}
        else:
            said = {"id": i, "messages": c["messages"]}
        f.write(json.dumps(said) + "\n")
answered = [c for c in chats if any(m["role"] == "assistant" for m in c["messages"])]
write("chats.tokens", [c["tokens"] for c in answered])
write("chats.loss", [c["loss"] for c in answered])
print(len(texts), "texts,", len(chats), "chats")
