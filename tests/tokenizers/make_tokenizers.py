#!/usr/bin/env python3
"""Writes a folder beside this script per kind of tokenizer: a small tokenizer.json, trained by tokenizers on this repository's
README, and in expected.json texts, the tokens that tokenizers makes of them, and what it makes of those.

    python3 make_tokenizers.py     (needs tokenizers; the tests don't)

tokenizers_test.cpp holds Weft to them.
"""
import json
import random
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
CORPUS = [(HERE.parent.parent / "README.md").read_text()]
BYTES = pre_tokenizers.ByteLevel.alphabet()
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def train(t, **how):
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=how.pop("size", 420), show_progress=False, **how))
    return t


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return train(t, special_tokens=["<|endoftext|>"], initial_alphabet=BYTES)


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, special_tokens=["<|begin_of_text|>", "<|eot_id|>"], initial_alphabet=BYTES)
    t.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])])
    return t


def llama2():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    fallback = ["<0x%02X>" % i for i in range(256)]
    train(t, special_tokens=["<unk>", "<s>", "</s>"] + fallback, limit_alphabet=60)
    said = json.loads(t.to_str())
    said["added_tokens"] = said["added_tokens"][:3]  # bytes are of the vocabulary, as in Llama 2's own file
    t = Tokenizer.from_str(json.dumps(said))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def qwen2():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS.replace("{1,3}", "")), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, initial_alphabet=BYTES)
    t.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("foo bar", lstrip=True, rstrip=True), AddedToken("tensor", single_word=True), AddedToken("été")])
    return t


def metaspace(scheme):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=scheme == "first"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "never")
    t.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return train(t, special_tokens=["<unk>", "<s>"], limit_alphabet=60, size=200)


def split(behavior):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"[aeiou]|\s"), behavior, invert=behavior == "removed"),
                                               pre_tokenizers.Digits(individual_digits=behavior == "removed")])
    return train(t, special_tokens=["<unk>"], size=160)


def prefixes():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    t.pre_tokenizer, t.normalizer = pre_tokenizers.Whitespace(), normalizers.NFKC()
    return train(t, special_tokens=["<unk>"], size=300, continuing_subword_prefix="##", end_of_word_suffix="</w>")


def prefix_space():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    return train(t, special_tokens=["<|endoftext|>"], initial_alphabet=BYTES, size=300)


KINDS = {"gpt2": gpt2, "llama3": llama3, "llama2": llama2, "qwen2": qwen2, "prefixes": prefixes, "prefix_space": prefix_space}
KINDS |= {"metaspace_" + s: lambda s=s: metaspace(s) for s in ("first", "always", "never")}
KINDS |= {"split_" + s: lambda s=s: split(s) for s in ("removed", "merged_with_previous", "merged_with_next", "contiguous")}

random.seed(3)
ADDED = ["<|endoftext|>", "<|eot_id|>", "<s>", "</s>", "<unk>", "<|im_start|>", "foo bar", "tensor", "été", "e\u0301t\u00e9", "<0x41>"]
RANGES = [(32, 127), (160, 0x250), (0x300, 0x370), (0x4E00, 0x4F00), (0x1F600, 0x1F640), (0x600, 0x700), (9, 11), (32, 33)]
ODD = ["don't I'll we've IT'S ", "   \n\n  x", "1234567 89", "\t\t a  b   ", "", " ", "▁a ▁▁ b", "\u3000\ufb01\u1100\uac01"]


def text():
    kind = random.random()
    if kind < 0.4:
        at = random.randrange(len(CORPUS[0]))
        s = CORPUS[0][at : at + random.randrange(1, 60)]
    elif kind < 0.7:
        s = "".join(chr(random.randrange(*random.choice(RANGES))) for _ in range(random.randrange(1, 20)))
    else:
        s = random.choice(ODD)
    for _ in range(random.choice([0, 0, 1, 2])):
        at = random.randrange(len(s) + 1)
        s = s[:at] + random.choice(["", " ", "  "]) + random.choice(ADDED) + random.choice(["", " "]) + s[at:]
    return s


TEXTS = [text() for _ in range(60)]
for name, make in KINDS.items():
    t = make()
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    said = json.loads(t.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(said, ensure_ascii=False, separators=(",", ":")) + "\n")
    rows = []
    for s in TEXTS:
        ids = t.encode(s).ids
        rows.append([s, ids, t.encode(s, add_special_tokens=False).ids, t.decode(ids), t.decode(ids, skip_special_tokens=False),
                     t.decode(ids[1::2])])
    (folder / "expected.json").write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
    print(name, t.get_vocab_size(), "tokens")
