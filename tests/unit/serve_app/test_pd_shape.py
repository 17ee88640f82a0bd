"""The requests that one client request becomes."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from serve_app.pd import shape


@dataclass
class Completion:
    """The attributes of vLLM's CompletionRequest that matter here."""

    prompt: Any = "hello"
    max_tokens: int | None = 16
    min_tokens: int = 0
    n: int = 1
    use_beam_search: bool = False
    stream: bool = False
    stream_options: Any = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    echo: bool = False
    prompt_embeds: Any = None
    request_id: str = "random"
    kv_transfer_params: Any = None
    temperature: float = 0.7

    def model_copy(self, deep: bool) -> Completion:
        return copy.deepcopy(self)


@dataclass
class Chat:
    """The same of ChatCompletionRequest."""

    messages: list[dict[str, str]] = field(default_factory=lambda: [{"role": "user", "content": "hi"}])
    tools: Any = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = 9
    min_tokens: int = 5
    n: int = 1
    stream: bool = True
    stream_options: Any = "usage"
    logprobs: bool | None = True
    top_logprobs: int | None = 3
    request_id: str = "random"
    kv_transfer_params: Any = None

    def model_copy(self, deep: bool) -> Chat:
        return copy.deepcopy(self)


def test_the_prefill_copy_asks_for_one_token_and_keeps_the_prompt() -> None:
    request = Chat(tools=[{"type": "function"}])
    (made,) = shape.prefill_copies(request, "id-1")
    assert (made.max_tokens, made.max_completion_tokens, made.min_tokens, made.n) == (1, 1, 0, 1)
    assert (made.stream, made.stream_options, made.logprobs, made.top_logprobs) == (False, None, False, 0)
    assert made.messages == request.messages
    assert made.tools == request.tools
    assert made.request_id == "id-1"
    assert made.kv_transfer_params["do_remote_decode"] is True
    assert request == Chat(tools=[{"type": "function"}]), "the client's request is not touched"


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        (["a"], ["a"]),
        ([], []),
    ],
)
def test_prompts(prompt: Any, expected: list[Any]) -> None:
    assert shape.prompts(Completion(prompt=prompt)) == expected
    assert shape.compound(Completion(prompt=prompt)) == (len(expected) > 1)


def test_each_prompt_of_a_list_is_prefilled_by_itself() -> None:
    made = shape.prefill_copies(Completion(prompt=["a", "b"], n=3, min_tokens=4), "id")
    assert [copy.prompt for copy in made] == ["a", "b"]
    assert [copy.request_id for copy in made] == ["id-0", "id-1"]
    assert {copy.n for copy in made} == {1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"n": 2}, True), ({"use_beam_search": True}, True), ({}, False), ({"n": 1, "prompt": [1, 2]}, False)],
)
def test_what_shares_one_fetch_is_compound(change: dict[str, Any], expected: bool) -> None:
    assert shape.compound(Completion(**change)) is expected
    assert shape.compound(Chat()) is False


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prompt_logprobs": 0}, "prompt_logprobs"),
        ({"echo": True, "logprobs": 0}, "echo_logprobs"),
        ({"echo": True}, None),
        ({"logprobs": 3}, None),
        ({"prompt": []}, "empty"),
        ({"prompt_embeds": b"x"}, "prompt_embeds"),
        ({}, None),
    ],
)
def test_what_decode_must_compute_itself(change: dict[str, Any], reason: str | None) -> None:
    assert shape.local_reason(Completion(**change)) == reason


def test_the_fetch_has_an_id_of_its_own() -> None:
    (prefill,) = shape.prefill_copies(Completion(n=2), "id")
    fetch = shape.fetch_copy(prefill, {"remote_block_ids": [[1]]})
    assert fetch.request_id == "id-fetch"
    assert fetch.kv_transfer_params == {"remote_block_ids": [[1]]}
    assert fetch.max_tokens == 1
    assert prefill.kv_transfer_params == shape.PREFILL_PARAMS


def test_the_decode_copy_is_the_request() -> None:
    request = Completion(n=2, min_tokens=3)
    assert shape.decode_copy(request, None) == request
    assert shape.decode_copy(request, {"a": 1}).kv_transfer_params == {"a": 1}


def test_the_guess_of_a_prompts_length() -> None:
    assert shape.guess_tokens(Completion(prompt="word " * 80)) == 100
    assert shape.guess_tokens(Completion(prompt=[7] * 300)) == 300
    assert shape.guess_tokens(Completion(prompt=["word " * 80, [7] * 300])) == 400  # decode would compute both
    assert shape.guess_tokens(Chat(messages=[{"role": "user", "content": "word " * 80}])) == 100 + shape.FRAME_TOKENS


def test_a_long_tool_list_makes_a_prompt_long() -> None:
    bare, tooled = Chat(), Chat(tools=[{"type": "function", "function": {"name": "x" * 4000}}])
    assert shape.guess_tokens(tooled) > shape.guess_tokens(bare) + 1000


def test_what_is_no_text_is_never_short() -> None:
    picture: Any = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    words: Any = [{"type": "text", "text": "what is it?"}]
    assert shape.guess_tokens(Chat(messages=[{"role": "user", "content": picture}])) == math.inf
    assert shape.guess_tokens(Chat(messages=[{"role": "user", "content": words}])) < 20
