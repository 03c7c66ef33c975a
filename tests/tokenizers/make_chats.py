#!/usr/bin/env python3
"""Writes chats.json beside this script: chats as transformers' apply_chat_template writes them by the templates that models were
published with, their tokens, and which of these are the assistant's; and llama3_chat/tokenizer.json, that of llama3/ with the tokens of
its chats.

    python3 make_chats.py          (needs transformers; the tests don't)

chats_test.cpp holds Weft to them. To tell the assistant's tokens, transformers wants {% generation %} around an answer, which the
published templates lack: each is here with these marks as `@` and `$`, which are taken away for the text.
"""
import json
import random
from pathlib import Path

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
TURNS = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
         "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}")
CHATML = ("{% for message in messages %}#{% if message['role'] == 'assistant' %}{{'<|im_start|>assistant\\n'}}@{{ message['content'] + "
          "'<|im_end|>' }}${{ '\\n' }}{% else %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
          "{% endif %}{% endfor %}")
QWEN = "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n' + '...<|im_end|>\\n' }}{% endif %}"
HELPFUL = "You are a helpful assistant."
PUBLISHED = {
    "chatml": ("qwen2", CHATML.replace("#", "")),
    "qwen2": ("qwen2", CHATML.replace("#", QWEN.replace("...", HELPFUL))),
    "qwen2.5": ("qwen2", CHATML.replace("#", QWEN.replace("...", "You are Qwen, created by Alibaba Cloud. " + HELPFUL))),
    "llama3": ("llama3_chat",
               "{% set loop_messages = messages %}{% for message in loop_messages %}{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}"
               "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}{% if message['role'] == 'assistant' %}@"
               "{{ message['content'] | trim + '<|eot_id|>' }}${% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}"
               "{% endfor %}"),
    "llama2": ("llama2",
               "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
               "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
               "{% for message in loop_messages %}" + TURNS +
               "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
               "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
               "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
               "{% elif message['role'] == 'assistant' %}@{{ ' '  + content.strip() + ' ' + eos_token }}${% endif %}{% endfor %}"),
    "mistral": ("llama2",
                "{{ bos_token }}{% for message in messages %}" + TURNS +
                "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
                "{% elif message['role'] == 'assistant' %}@{{ message['content'] + eos_token}}${% else %}"
                "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"),
}

# Qwen 2.5's whole template, and the same with marks, which have to stand behind the new line that a turn begins with.
QWEN25_TOOLS = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}
    {%- else %}{{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}{%- endif %}
    {{- "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}{{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}{%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' }}{%- if message.role == "assistant" %}@{{- message.content + '<|im_end|>' }}${%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}{{- '\n' }}
    {%- elif message.role == "assistant" %}
        #
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' }}{{- message.content }}{{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}"""
CALLS = r"""{%- for tool_call in message.tool_calls %}{%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
    {{- '?<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}
{%- endfor %}"""
PUBLISHED_CALLS = (r"{{- '<|im_start|>' + message.role }}{%- if message.content %}{{- '\n' + message.content }}{%- endif %}" + CALLS.replace("?", r"\n") +
                   r"{{- '<|im_end|>\n' }}")
MARKED_CALLS = (r"{{- '<|im_start|>' + message.role + '\n' }}@{%- if message.content %}{{- message.content + '\n' }}{%- endif %}" +
                CALLS.replace("?", "").replace("{%- endfor %}", r"{{- '\n' if not loop.last }}{%- endfor %}") + r"{{- '<|im_end|>' }}${{- '\n' }}")

said = Tokenizer.from_file(str(HERE / "llama3" / "tokenizer.json"))
said.add_special_tokens(["<|start_header_id|>", "<|end_header_id|>"])
(HERE / "llama3_chat").mkdir(exist_ok=True)
(HERE / "llama3_chat" / "tokenizer.json").write_text(
    json.dumps(json.loads(said.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")

random.seed(4)
WORDS = ["the", "tensor", "  ", "\n", "\n\n", "Why?", "été", "\u3000", "<|im_end|>", "</s>", "[INST]", "1234", "don't", " ", "😀", "\t", "\x1f"]


def content():
    return "".join(random.choice(WORDS) for _ in range(random.randrange(0, 9)))


def chat(system):
    roles = ["user", "assistant"] * random.randrange(1, 4)
    roles = roles[: len(roles) - (random.random() < 0.2)]
    roles = (["system"] if system else []) + roles
    return [dict(role=r, content=content()) for r in roles]


out = []
for name, (folder, marked) in PUBLISHED.items():
    bos, eos = ("<s>", "</s>") if folder == "llama2" else ("<|begin_of_text|>", "<|eot_id|>") if "llama3" in folder else (None, "<|im_end|>")
    t = PreTrainedTokenizerFast(tokenizer_file=str(HERE / folder / "tokenizer.json"), bos_token=bos, eos_token=eos)
    plain = marked.replace("@", "").replace("$", "")
    marked = marked.replace("@", "{% generation %}").replace("$", "{% endgeneration %}")
    for i in range(14):
        messages = chat(name != "mistral" and random.random() < 0.4)
        text = t.apply_chat_template(messages, chat_template=plain, tokenize=False)
        made = t.apply_chat_template(messages, chat_template=marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        assert made["input_ids"] == t(text, add_special_tokens=False)["input_ids"]
        out.append(dict(format=name, tokenizer=folder, messages=messages, text=text, tokens=made["input_ids"],
                        loss=made["assistant_masks"]))
ARGUMENTS = [{}, {"z": 1, "a": "été \"x\"\n\x1f/"}, {"n": [1.0, 0.1, -3, 1e16, 1e-5, 123456.789, 1e17, True, None, []], "m": {"b": {}, "a": " "}}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "Why? <é>", "parameters": {"type": "object", "properties": {"z": {"type": "number"},
          "a": {"type": "string"}}, "required": ["z"]}}}, {"name": "g", "x": 0.5}]
t = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "qwen2" / "tokenizer.json"), eos_token="<|im_end|>")
plain = QWEN25_TOOLS.replace("@", "").replace("$", "").replace("#\n", PUBLISHED_CALLS + "\n")
marked = QWEN25_TOOLS.replace("#\n", MARKED_CALLS + "\n").replace("@", "{%- generation %}").replace("$", "{%- endgeneration %}")
for i in range(14):
    messages = chat(random.random() < 0.4)
    for m in [m for m in messages if m["role"] == "assistant" and random.random() < 0.7]:
        at, calls = messages.index(m), random.randrange(1, 4)
        called = dict(role="assistant", content=content() if random.random() < 0.5 else "")
        called["tool_calls"] = [dict(type="function", function=dict(name=random.choice("fg"), arguments=random.choice(ARGUMENTS))) for _ in range(calls)]
        messages[at:at] = [called] + [dict(role="tool", content=content()) for _ in range(calls)]
    if i == 0:
        messages = [dict(role="tool", content="4")] + messages
    tools = random.choice([None, TOOLS, TOOLS[1:]])
    text = t.apply_chat_template(messages, tools=tools, chat_template=plain, tokenize=False)
    assert text == t.apply_chat_template(messages, tools=tools, chat_template=marked.replace("{%- generation %}", "").replace("{%- endgeneration %}", ""), tokenize=False)
    made = t.apply_chat_template(messages, tools=tools, chat_template=marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    assert made["input_ids"] == t(text, add_special_tokens=False)["input_ids"]
    out.append(dict(format="qwen2.5", tokenizer="qwen2", messages=messages, **(dict(tools=tools) if tools else {}), text=text, tokens=made["input_ids"],
                    loss=made["assistant_masks"]))
# Qwen 3's, as its tokenizer_config.json has it, and the same with marks.
plain = (HERE / "qwen3.jinja").read_text()
turn, end = "        {%- if loop.index0 > ns.last_query_index %}\n", "        {{- '<|im_end|>\\n' }}\n    {%- elif message.role == \"tool\" %}"
assert plain.count(turn) == plain.count(end) == 1 and plain.count("{{- '<|im_start|>' + message.role + '\\n") == 4
head, body = plain.split(turn)
body, tail = body.split(end)
body = body.replace("'<|im_start|>' + message.role + '\\n<think>", "'<think>").replace("'<|im_start|>' + message.role + '\\n' + ", "")
body = body.replace("loop.last or (not loop.last and", "is_last or (not is_last and")
marked = (head + "{%- set is_last = loop.last %}{%- set late = loop.index0 > ns.last_query_index %}{{- '<|im_start|>assistant\\n' }}{%- generation %}"
          "{%- if late %}\n" + body + "{{- '<|im_end|>' }}{%- endgeneration %}{{- '\\n' }}{%- elif message.role == \"tool\" %}" + tail)
WORDS += ["<think>", "</think>", "</think>\n\n", "<think>\n", "<tool_response>", "</tool_response>"]
for i in range(40):
    messages = chat(random.random() < 0.4)
    for m in [m for m in messages if m["role"] == "assistant" and random.random() < 0.6]:
        at, calls = messages.index(m), random.randrange(1, 4)
        called = dict(role="assistant", content=content() if random.random() < 0.5 else "")
        called["tool_calls"] = [dict(type="function", function=dict(name=random.choice("fg"), arguments=random.choice(ARGUMENTS))) for _ in range(calls)]
        messages[at:at] = [called] + [dict(role="tool", content=content()) for _ in range(calls)]
    if random.random() < 0.3:
        messages = [m for m in messages if m["role"] != "user" or random.random() < 0.5] or messages
    if random.random() < 0.3:
        messages[-1]["content"] = "<tool_response>" + content() + "</tool_response>"
    tools = random.choice([None, TOOLS, TOOLS[1:]])
    text = t.apply_chat_template(messages, tools=tools, chat_template=plain, tokenize=False)
    assert text == t.apply_chat_template(messages, tools=tools, chat_template=marked.replace("{%- generation %}", "").replace("{%- endgeneration %}", ""), tokenize=False)
    made = t.apply_chat_template(messages, tools=tools, chat_template=marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    assert made["input_ids"] == t(text, add_special_tokens=False)["input_ids"]
    out.append(dict(format="qwen3", tokenizer="qwen2", messages=messages, **(dict(tools=tools) if tools else {}), text=text, tokens=made["input_ids"],
                    loss=made["assistant_masks"]))
(HERE / "chats.json").write_text("[\n" + ",\n".join(json.dumps(o, separators=(",", ":")) for o in out) + "\n]\n")
print(len(out), "chats")
