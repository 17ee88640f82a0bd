"""Kinds of request whose answer must be the same from one node and from prefill/decode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ASK = [{"role": "user", "content": "Hello, what is the GNU General Public License? Please explain it in a few words."}]
TEXT = "This program is free software; you can redistribute it and/or modify"
LONG = "It is a long established fact that a reader will be distracted by readable content. " * 40
TOOL = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 5}}, "required": ["city"]}}}]  # fmt: skip
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """name, method, route and body. raw: bytes sent instead of the body."""

    name: str
    route: str
    body: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    method: str = "POST"


def chat(name: str, **more: Any) -> Kind:
    """A chat request; a value of None takes the key away."""
    body = {"model": "demo", "messages": ASK, "max_tokens": 12, "temperature": 0, **more}
    return Kind(f"chat {name}", CHAT, {key: value for key, value in body.items() if value is not None})


def text(name: str, **more: Any) -> Kind:
    """A completion request."""
    body = {"model": "demo", "prompt": TEXT, "max_tokens": 12, "temperature": 0, **more}
    return Kind(f"text {name}", COMPLETIONS, {key: value for key, value in body.items() if value is not None})


def _system(content: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": content}, *ASK]


KINDS: tuple[Kind, ...] = (
    chat("plain"),
    chat("stream", stream=True),
    chat("stream usage", stream=True, stream_options={"include_usage": True}),
    chat("stream continuous usage", stream=True,
         stream_options={"include_usage": True, "continuous_usage_stats": True}),
    chat("one token", max_tokens=1),
    chat("one token stream", max_tokens=1, stream=True),
    chat("max_completion_tokens", max_tokens=None, max_completion_tokens=5),
    chat("no limit given", max_tokens=None, stop=["a"]),
    chat("stop text", max_tokens=40, stop=["a"]),
    chat("stop list", max_tokens=40, stop=["zz", "e"]),
    chat("stop in output", max_tokens=40, stop=["a"], include_stop_str_in_output=True),
    chat("stop ids", max_tokens=40, stop_token_ids=[300, 301, 302]),
    chat("ignore_eos", ignore_eos=True),
    chat("logprobs", logprobs=True, top_logprobs=3),
    chat("logprobs none on top", logprobs=True),
    chat("logprobs stream", logprobs=True, top_logprobs=2, stream=True),
    chat("n", n=3, temperature=1, seed=1),
    chat("n stream", n=2, temperature=1, seed=1, stream=True),
    chat("n long", n=4, temperature=1, seed=5, messages=_system(LONG)),
    chat("seed", temperature=1, seed=42),
    chat("seed stream", temperature=1, seed=43, stream=True),
    chat("top_p", temperature=1, seed=2, top_p=0.5),
    chat("top_k", temperature=1, seed=2, top_k=5),
    chat("min_p", temperature=1, seed=2, min_p=0.1),
    chat("tools auto", tools=TOOL),
    chat("tools none", tools=TOOL, tool_choice="none"),
    chat("tools named", tools=TOOL, max_tokens=40,
         tool_choice={"type": "function", "function": {"name": "get_weather"}}),
    chat("tools required", tools=TOOL, tool_choice="required", max_tokens=80),
    chat("tools stream", tools=TOOL, tool_choice="required", max_tokens=80, stream=True),
    chat("tool history", messages=[
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Bern"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ], tools=TOOL),
    chat("json schema", max_tokens=40,
         response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}),
    chat("json object", response_format={"type": "json_object"}, max_tokens=30),
    chat("regex", structured_outputs={"regex": "[a-c]{3}"}),
    chat("choice", structured_outputs={"choice": ["yes", "no"]}),
    chat("min_tokens", min_tokens=5, max_tokens=8),
    chat("min_tokens stream", min_tokens=5, max_tokens=8, stream=True),
    chat("min is max", min_tokens=6, max_tokens=6),
    chat("logit_bias", logit_bias={"300": 100}, max_tokens=3),
    chat("penalties", presence_penalty=1.5, frequency_penalty=1.0),
    chat("repetition", repetition_penalty=1.3),
    chat("bad_words", bad_words=["the"]),
    chat("allowed ids", allowed_token_ids=[300, 301, 302]),
    chat("beam", use_beam_search=True, n=2, max_tokens=4),
    chat("echo", echo=True, max_tokens=4),
    chat("token ids", return_token_ids=True, max_tokens=3),
    chat("prompt_logprobs", prompt_logprobs=1, max_tokens=2),
    chat("system", messages=_system("Be brief.")),
    chat("long", messages=_system(LONG)),
    chat("long stream", messages=_system(LONG), stream=True),
    chat("many turns", messages=[{"role": role, "content": f"turn {i}"} for i, role in
                                 enumerate(["user", "assistant"] * 6 + ["user"])]),
    chat("parts", messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"},
                                                         {"type": "text", "text": " there"}]}]),
    chat("continue", messages=[*ASK, {"role": "assistant", "content": "It is"}], add_generation_prompt=False,
         continue_final_message=True),
    chat("template argument", chat_template_kwargs={"anything": 1}),
    chat("unicode", messages=[{"role": "user", "content": "Grüße 😀 你好 \u0000"}]),
    chat("truncated", truncate_prompt_tokens=10),
    chat("user and metadata", user="me", metadata={"a": "b"}),
    chat("model left out", model=None),
    text("plain"),
    text("stream", stream=True),
    text("stream usage", stream=True, stream_options={"include_usage": True}),
    text("logprobs", logprobs=2, max_tokens=4),
    text("logprobs stream", logprobs=2, max_tokens=4, stream=True),
    text("echo", echo=True, max_tokens=4),
    text("echo logprobs", echo=True, logprobs=1, max_tokens=2),
    text("echo only", echo=True, max_tokens=0),
    text("prompt_logprobs", prompt_logprobs=0, max_tokens=2),
    text("n", n=3, temperature=1, seed=3),
    text("n stream", n=3, temperature=1, seed=3, stream=True),
    text("two prompts", prompt=["This program is free", "software; you can redistribute"]),
    text("two prompts swapped", prompt=["software; you can redistribute", "This program is free"]),
    text("two prompts stream", prompt=["This program is free", "software; you can redistribute"], stream=True),
    text("five prompts", prompt=[f"Section {i}. The licensee may" for i in range(5)]),
    text("long prompts", prompt=[LONG, LONG[::-1]], max_tokens=5),
    text("prompts and n", prompt=["This program is free", "import os"], n=2, temperature=1, seed=9),
    text("prompts logprobs", prompt=["This program", "import os"], logprobs=1, max_tokens=3),
    text("prompt of ids", prompt=[300, 301, 302, 303, 304, 305]),
    text("prompts of ids", prompt=[[300, 301, 302], [303, 304, 305, 306]]),
    text("list of one", prompt=["This program is free"]),
    text("beam", use_beam_search=True, n=2, max_tokens=4),
    text("min_tokens", min_tokens=4, max_tokens=6),
    text("stop", stop=["e"], max_tokens=30),
    text("long", prompt=LONG),
    text("token ids", return_token_ids=True, max_tokens=3),
    text("seed", temperature=1, seed=7),
    text("suffix", suffix="x"),
    text("unknown field", no_such_field=1),
    chat("unknown model", model="nope"),
    chat("no messages", messages=None),
    chat("empty messages", messages=[]),
    chat("temperature below zero", temperature=-1),
    chat("n zero", n=0),
    chat("max_tokens zero", max_tokens=0),
    chat("max_tokens as text", max_tokens="many"),
    chat("min over max", min_tokens=9, max_tokens=3),
    chat("top_logprobs alone", top_logprobs=3),
    chat("too many logprobs", logprobs=True, top_logprobs=500),
    chat("bad schema", response_format={"type": "json_schema"}),
    chat("bad role", messages=[{"role": "nobody", "content": "x"}]),
    chat("tool without tools", tool_choice="required"),
    chat("kv_transfer_params", kv_transfer_params={"do_remote_decode": True}),
    text("too long", prompt="a b c d e " * 3000),
    text("too many tokens asked", max_tokens=5000),
    text("empty prompt", prompt=""),
    text("no prompt", prompt=None),
    text("empty list", prompt=[]),
    text("ids out of range", prompt=[999999]),
    Kind("malformed", CHAT, raw=b'{"model": "demo", '),
    Kind("not an object", CHAT, raw=b"[1, 2]"),
    Kind("no body", CHAT, raw=b""),
    Kind("tokenize", "/tokenize", {"model": "demo", "prompt": "hello world"}),
    Kind("detokenize", "/detokenize", {"model": "demo", "tokens": [300, 301]}),
    Kind("embeddings", "/v1/embeddings", {"model": "demo", "input": "x"}),
    Kind("score", "/v1/score", {"model": "demo", "text_1": "x", "text_2": "y"}),
    Kind("responses", "/v1/responses", {"model": "demo", "input": "hello", "max_output_tokens": 5}),
    Kind("messages", "/v1/messages", {"model": "demo", "max_tokens": 5, "messages": ASK}),
    Kind("models", "/v1/models", method="GET"),
    Kind("one model", "/v1/models/demo", method="GET"),
    Kind("no such model", "/v1/models/nope", method="GET"),
    Kind("no such route", "/v1/nothing", method="GET"),
    Kind("wrong method", CHAT, method="GET"),
    Kind("docs", "/docs", method="GET"),
)  # fmt: skip
