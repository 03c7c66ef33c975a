#!/usr/bin/env python3
"""folders.py make LIKE: a tokenizer, chat template, settings of generation and config.json as transformers writes them.
folders.py read LIKE FOLDER: has transformers and peft read what folders.cpp left in FOLDER, and compares logits in float32 with Weft's
in double, and what was taken along with LIKE. Whatever transformers warns of is a fault. The exit code is 1 where there is one.
"""
import filecmp
import logging
import sys
import warnings
from pathlib import Path

import torch
import transformers as hf

torch.set_num_threads(1)
ROWS, LENGTH, VOCABULARY = 4, 16, 96
i = torch.arange(ROWS * LENGTH)
tokens = ((31 + i * i * 5 + i * 3) % VOCABULARY).reshape(ROWS, LENGTH)
NAMES = {"llama2": "llama", "llama3": "llama", "linear": "llama", "dynamic": "llama", "yarn": "llama", "mistral": "mistral", "qwen2": "qwen2",
         "qwen2_window": "qwen2", "qwen3": "qwen3", "gpt2": "gpt2", "gpt2_head": "gpt2"}
IDS = dict(bos_token_id=3, eos_token_id=[4, 5], pad_token_id=6)


def make(like):
    words = hf.PreTrainedTokenizerFast(tokenizer_file=str(Path(__file__).parent.parent.parent / "tokenizers/llama3_chat/tokenizer.json"),
                                       eos_token="<|eot_id|>", pad_token="<|end_of_text|>")
    words.chat_template = "{% for m in messages %}<|start_header_id|>{{ m['role'] }}: {{ m['content'] }}<|eot_id|>{% endfor %}"
    words.save_pretrained(like)
    hf.GenerationConfig(do_sample=True, temperature=0.6, top_p=0.9, **IDS).save_pretrained(like)
    hf.LlamaConfig(vocab_size=VOCABULARY, **IDS).save_pretrained(like)


def apart(model, right):
    with torch.no_grad():
        logits = model.eval()(tokens).logits.double().flatten()
    return ((logits - right).abs().max() / right.abs().max()).item()


def numbers(path):
    return torch.tensor([float(x) for x in path.read_text().split()], dtype=torch.double)


class faults(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.found = []

    def emit(self, record):
        self.found.append(record.getMessage())


def read(like, root):
    import peft
    heard = faults()
    hf.utils.logging.get_logger().addHandler(heard)
    taken = sorted(p.name for p in like.iterdir() if p.name != "config.json")
    assert {"tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"} <= set(taken), taken
    bad = 0
    for name, family in NAMES.items():
        heard.found.clear()
        folder, found = root / name, {}
        right, adapted = numbers(folder / "logits"), numbers(folder / "adapted")
        for part, wanted in (("one", right), ("several", right), ("merged", adapted), ("merged_several", adapted)):
            files = list((folder / part).glob("*.safetensors"))
            assert (len(files) > 1) == ("several" in part), files
            model, said = hf.AutoModelForCausalLM.from_pretrained(folder / part, output_loading_info=True)
            said = {k: v for k, v in said.items() if v}
            assert not said, f"{folder / part}: {said}"
            assert model.config.model_type == family and model.dtype == torch.float32
            assert all(getattr(model.config, k) == v and getattr(model.generation_config, k) == v for k, v in IDS.items()), model.config
            assert model.generation_config.temperature == 0.6
            same = filecmp.cmpfiles(like, folder / part, taken, shallow=False)
            assert sorted(same[0]) == taken, same
            found[part] = apart(model, wanted)
            if part == "one":
                try:
                    found["adapters"] = apart(peft.PeftModel.from_pretrained(model, folder / "adapters"), adapted)
                except Exception as e:
                    print(f"{name}: peft: {e}")
                    found["adapters"] = float("inf")
        a, b = hf.AutoTokenizer.from_pretrained(folder / "one"), hf.AutoTokenizer.from_pretrained(like)
        chat = [dict(role="user", content="Once upon a time, ça va?")]
        assert a.apply_chat_template(chat) == b.apply_chat_template(chat) and a.chat_template == b.chat_template
        # float32 rounds each sum by 6e-8, which two layers make fifty times more. What adapters change has to be more, or nothing is shown.
        changed = ((adapted - right).abs().max() / right.abs().max()).item()
        good = max(found.values()) < 1e-5 and changed > 1e-2 and not heard.found
        bad += not good
        print(f"{name}: " + ", ".join(f"{k} {v:.1e}" for k, v in found.items()) + f"; adapters change {changed:.1e}" + ("" if good else f"  FAULT {heard.found}"))
    return bad > 0


warnings.filterwarnings("error", message=".*rope")
print("transformers", hf.__version__)
sys.exit(make(Path(sys.argv[2])) if sys.argv[1] == "make" else read(Path(sys.argv[2]), Path(sys.argv[3])))
