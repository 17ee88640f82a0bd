"""The size of the demo model, and its files that are plain JSON.

A Llama with 5 million parameters in float32: small enough to be made in a second and to answer on one CPU core, big
enough that its KV cache is worth transferring (4 KiB a token) and that greedy decoding has no ties.
"""

from __future__ import annotations

import json
from typing import Any

VOCABULARY = 4096
HIDDEN = 256
LAYERS = 4
HEADS = 4
KV_HEADS = 2
HEAD_DIM = 64
INTERMEDIATE = 704
CONTEXT = 4096

BEGIN, END, TURN_START, TURN_END = "<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"
TOOL_START, TOOL_END = "<tool_call>", "</tool_call>"
SPECIAL = (BEGIN, END, TURN_START, TURN_END, TOOL_START, TOOL_END)
"""Special tokens; their ids are their places in this tuple."""

# ChatML, with tools listed the way vLLM's `hermes` tool parser expects calls to come back.
CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% elif message['content'] %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}"
    "{% if message['tool_calls'] %}{% for call in message['tool_calls'] %}<tool_call>\n"
    "{{ call['function'] | tojson }}\n</tool_call>{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def model_config(vocabulary: int) -> dict[str, Any]:
    """config.json of a transformers Llama. `vocabulary`: how many tokens the tokenizer really has."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": SPECIAL.index(BEGIN),
        "dtype": "float32",
        "eos_token_id": SPECIAL.index(TURN_END),
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.05,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": CONTEXT,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "pad_token_id": SPECIAL.index(END),
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": vocabulary,
    }


def generation_config() -> dict[str, Any]:
    """generation_config.json: ids only, no sampling defaults that would surprise a test."""
    return {
        "bos_token_id": SPECIAL.index(BEGIN),
        "eos_token_id": SPECIAL.index(TURN_END),
        "pad_token_id": SPECIAL.index(END),
    }


def tokenizer_config() -> dict[str, Any]:
    """tokenizer_config.json of a transformers fast tokenizer."""
    return {
        "bos_token": BEGIN,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": TURN_END,
        "model_max_length": CONTEXT,
        "pad_token": END,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def to_bytes(document: dict[str, Any]) -> bytes:
    """JSON with sorted keys: the same bytes for the same document."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()
