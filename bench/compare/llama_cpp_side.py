"""llama.cpp's side of text.py: the same model as a GGUF file, read by llama-cpp-python and asked for the token of the highest logit."""
import ctypes
import os
import tempfile

import numpy as np

import gguf
import llama_cpp as lib


def write(model, path, bf16):
    """A GPT-2 of transformers as GGUF: matrices in bf16 where that is asked for, all else in fp32; its projections lie transposed there."""
    config, w = model.config, gguf.GGUFWriter(path, "gpt2")
    w.add_context_length(config.n_positions)
    w.add_embedding_length(config.n_embd)
    w.add_block_count(config.n_layer)
    w.add_feed_forward_length(4 * config.n_embd)
    w.add_head_count(config.n_head)
    w.add_layer_norm_eps(config.layer_norm_epsilon)
    w.add_vocab_size(config.vocab_size)
    w.add_tokenizer_model("none")
    parts = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
             "mlp.c_proj": "ffn_down"}
    names = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}
    names |= {f"transformer.h.{i}.{theirs}": f"blk.{i}.{ours}" for i in range(config.n_layer) for theirs, ours in parts.items()}
    for name, tensor in model.state_dict().items():
        module, kind = name.rsplit(".", 1)
        if module not in names:
            continue  # the head, which is the embedding
        numbers = tensor.float()
        numbers = (numbers.T if ".c_" in module and kind == "weight" else numbers).contiguous().numpy()
        if bf16 and numbers.ndim == 2 and "wpe" not in module:
            w.add_tensor(f"{names[module]}.{kind}", gguf.quantize(numbers, gguf.GGMLQuantizationType.BF16),
                         raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            w.add_tensor(f"{names[module]}.{kind}", numbers)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class LlamaCpp:
    """A model and its cache of keys and values, for so many texts at once."""

    def __init__(self, model, bf16, threads, texts, most):
        self.vocab, self.texts = model.config.vocab_size, texts
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gguf")
            write(model, path, bf16)
            lib.llama_log_set(self.silent, ctypes.c_void_p(0))
            options = lib.llama_model_default_params()
            options.use_mmap = False  # the file goes away
            self.model = lib.llama_model_load_from_file(path.encode(), options)
        assert self.model, "llama.cpp doesn't read the file"
        options = lib.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = most * texts
        options.n_seq_max = texts
        options.n_threads = options.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, options)
        self.batch = lib.llama_batch_init(most * texts, 0, 1)

    @lib.llama_log_callback
    def silent(level, text, data):
        pass

    def decode(self, columns, begin):
        """columns: of each text so many tokens, at positions from begin on. Returns each text's next."""
        b, n, last = self.batch, 0, []
        for text, tokens in enumerate(columns):
            for i, token in enumerate(tokens):
                b.token[n], b.pos[n], b.n_seq_id[n], b.seq_id[n][0], b.logits[n] = token, begin + i, 1, text, i == len(tokens) - 1
                n += 1
            last.append(n - 1)
        b.n_tokens = n
        assert lib.llama_decode(self.context, b) == 0
        return [int(np.ctypeslib.as_array(lib.llama_get_logits_ith(self.context, i), (self.vocab,)).argmax()) for i in last]

    def generate(self, prompts, count):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        at, made = len(prompts[0]), [[t] for t in self.decode(prompts, 0)]
        while len(made[0]) < count:
            for text, token in zip(made, self.decode([[text[-1]] for text in made], at)):
                text.append(token)
            at += 1
        return made

    def end(self):
        lib.llama_batch_free(self.batch)
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)
