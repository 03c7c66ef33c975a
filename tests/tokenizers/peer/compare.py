#!/usr/bin/env python3
"""compare.py PROGRAM BYTES WORK: has PROGRAM (tokens.cpp) and the package tokenizers read mixed text of so many bytes by every
tokenizer.json of byte-pair encoding that a package here ships, and by those beside this test, and compares token for token.

The text: what this Python's packages and Debian's ship. Sources, documentation, licences and messages in some hundred languages (.mo),
whole files and pieces of them, and single characters drawn from all of Unicode. The exit code is 1 where a tokenizer differs.
"""
import array
import gzip
import itertools
import json
import random
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from tokenizers import Tokenizer

program, size, work = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
packages = Path(sysconfig.get_paths()["purelib"])
HERE = Path(__file__).parent.parent


def messages(path):
    """The translations in a .mo file, one a line."""
    raw = path.read_bytes()
    order = "<" if raw[:4] == b"\xde\x12\x04\x95" else ">"
    count, _, at = struct.unpack(order + "III", raw[8:20])
    spans = struct.iter_unpack(order + "II", raw[at:at + 8 * count])
    return b"\n".join(raw[begin:begin + n] for n, begin in spans)


def read(path):
    try:
        raw = gzip.open(path).read() if path.suffix == ".gz" else messages(path) if path.suffix == ".mo" else path.read_bytes()
        return raw.decode()
    except (OSError, EOFError, ValueError, struct.error):
        return ""  # not UTF-8, or not there


def mixed(size):
    """Texts of together `size` bytes, the same ones wherever the same files are."""
    draw = random.Random(1)
    found = [p for folder in (packages, *map(Path, ("/usr/share/doc", "/usr/share/locale", "/usr/share/perl", "/usr/lib/python3",
                                                    "/usr/share/i18n", "/usr/share/common-licenses")))
             for p in folder.rglob("*") if p.suffix in (".py", ".md", ".rst", ".txt", ".gz", ".mo", ".pl", ".json", "") and p.is_file()
             and p.stat().st_size < 2 << 20]
    by_kind = {}
    for p in sorted(found):
        by_kind.setdefault(p.suffix, []).append(p)
    for files in by_kind.values():
        draw.shuffle(files)
    out, bytes_made, kinds = [], 0, sorted(by_kind)
    while bytes_made < size and any(by_kind.values()):
        kind = draw.choice([k for k in kinds if by_kind[k]] + ["unicode"])
        if kind == "unicode":
            text = "".join(chr(c) for c in draw.choices(range(1, 0x110000), k=200) if not 0xD800 <= c < 0xE000)
            text += "".join(chr(c) for c in draw.choices(range(1, 0x3000), k=400))
        else:
            text = read(by_kind[kind].pop())
        at = 0
        while at < len(text) and bytes_made < size and at < 200_000:  # pieces of a file, now and then a long one
            piece = text[at:at + draw.choice([50, 500, 5000, 50_000])]
            out.append(piece)
            at, bytes_made = at + len(piece), bytes_made + len(piece.encode())
    return out


def records(path):
    raw = path.read_bytes()
    at = 0
    while at < len(raw):
        n = struct.unpack_from("<I", raw, at)[0]
        yield raw[at + 4:at + 4 + n]
        at += 4 + n


def is_bpe(path):
    try:
        said = json.loads(path.read_text())
        return isinstance(said, dict) and said.get("model", {}).get("type", "BPE") == "BPE" and "merges" in said.get("model", {})
    except (ValueError, AttributeError):
        return False


texts = mixed(size)
(work / "texts").write_bytes(b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts))
print(f"{len(texts)} texts, {sum(len(t.encode()) for t in texts) / 1e6:.1f} MB")
shipped = [p for p in sorted(packages.rglob("*tokenizer*.json")) if p.stat().st_size > 10_000 and is_bpe(p)]
own = sorted(HERE.glob("*/tokenizer.json"))
sizes = list(itertools.accumulate(len(t) for t in texts))
part_of_it = sum(n <= 500_000 for n in sizes) or 1
bad = 0
for path in shipped + own:
    name = path.relative_to(packages) if path in shipped else path.relative_to(HERE)
    some = len(texts) if path in shipped else part_of_it  # those of the tests are small, and make many tokens of it
    begin = time.time()
    part = work / "part"
    part.write_bytes(b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts[:some]))
    subprocess.run([program, path, part, work / "out"], check=True)
    ours = time.time() - begin
    theirs = Tokenizer.from_file(str(path))
    theirs.no_truncation(), theirs.no_padding()
    found = records(work / "out")
    tokens = differ = 0
    for text in texts[:some]:
        ids = theirs.encode(text).ids
        own_ids, own_text = array.array("i", next(found)).tolist(), next(found).decode()
        tokens += len(ids)
        if own_ids != ids or own_text != theirs.decode(ids, skip_special_tokens=False):
            differ += 1
            if differ <= 3:
                at = next((i for i, (a, b) in enumerate(zip(ids, own_ids)) if a != b), min(len(ids), len(own_ids)))
                print(f"  {text[:60]!r}... of {len(text)}: at token {at} of {len(ids)}: {own_ids[at:at + 5]}, tokenizers {ids[at:at + 5]}")
    print(f"{name}: {tokens} tokens, {differ} texts of {some} differ ({ours:.0f} s)")
    bad += differ > 0
assert shipped, f"no package in {packages} ships a tokenizer.json"
sys.exit(bad > 0)
