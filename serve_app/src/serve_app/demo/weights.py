"""Random weights as a safetensors file, written without torch.

Format: https://github.com/huggingface/safetensors#format (8 bytes little-endian header length, JSON header, tensors).
The numbers come from PCG64's raw 64-bit stream, which numpy keeps stable between versions, and only exact operations
(shift, multiply by a power of two) follow: every processor gives the same bytes. torch's normal_() does not promise
that between vector instruction sets, and importing it costs seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import BinaryIO

import numpy

from serve_app.demo import shape

SEED = 20_260
SPREAD = 0.0625
"""Standard deviation of the weights, a power of two so that scaling is exact up to one rounding."""


def tensors(vocabulary: int) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes in file order, as transformers' LlamaForCausalLM names them."""
    attention = shape.HEADS * shape.HEAD_DIM
    kv = shape.KV_HEADS * shape.HEAD_DIM
    found: list[tuple[str, tuple[int, ...]]] = [
        ("lm_head.weight", (vocabulary, shape.HIDDEN)),
        ("model.embed_tokens.weight", (vocabulary, shape.HIDDEN)),
    ]
    for layer in range(shape.LAYERS):
        prefix = f"model.layers.{layer}."
        found += [
            (prefix + "input_layernorm.weight", (shape.HIDDEN,)),
            (prefix + "mlp.down_proj.weight", (shape.HIDDEN, shape.INTERMEDIATE)),
            (prefix + "mlp.gate_proj.weight", (shape.INTERMEDIATE, shape.HIDDEN)),
            (prefix + "mlp.up_proj.weight", (shape.INTERMEDIATE, shape.HIDDEN)),
            (prefix + "post_attention_layernorm.weight", (shape.HIDDEN,)),
            (prefix + "self_attn.k_proj.weight", (kv, shape.HIDDEN)),
            (prefix + "self_attn.o_proj.weight", (shape.HIDDEN, attention)),
            (prefix + "self_attn.q_proj.weight", (attention, shape.HIDDEN)),
            (prefix + "self_attn.v_proj.weight", (kv, shape.HIDDEN)),
        ]
    found.append(("model.norm.weight", (shape.HIDDEN,)))
    return found


def _values(vocabulary: int) -> Iterator[bytes]:
    """The tensors' bytes, in file order: ones for the norms, uniform noise for the rest."""
    stream = numpy.random.PCG64(SEED)
    half_width = numpy.float32(SPREAD * math.sqrt(3.0))
    for name, dimensions in tensors(vocabulary):
        count = math.prod(dimensions)
        if len(dimensions) == 1:
            yield numpy.ones(count, dtype="<f4").tobytes()
            continue
        raw = stream.random_raw((count + 1) // 2).astype("<u8").view("<u4")[:count]
        unit = (raw >> numpy.uint32(8)).astype("<f4") * numpy.float32(2.0**-23) - numpy.float32(1.0)
        # Both ends are wider: answers then depend on the prompt, and the best token is clearly ahead of the next.
        wide = name in ("model.embed_tokens.weight", "lm_head.weight")
        scale = half_width * numpy.float32(4.0) if wide else half_width
        yield (unit * scale).astype("<f4").tobytes()


def write(out: BinaryIO, vocabulary: int) -> int:
    """Writes the safetensors file; the number of bytes written."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dimensions in tensors(vocabulary):
        size = 4 * math.prod(dimensions)
        header[name] = {"dtype": "F32", "shape": list(dimensions), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    written = out.write(len(text).to_bytes(8, "little")) + out.write(text)
    for block in _values(vocabulary):
        written += out.write(block)
    return written
