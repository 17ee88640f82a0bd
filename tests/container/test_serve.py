"""The demo model behind the real routes, asked by plain HTTP and by the `openai` client."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import openai
import pytest

from tests.container.docker import Container

pytestmark = pytest.mark.needs("serve_app")

MESSAGES: list[Any] = [{"role": "user", "content": "What does the licence say about warranty?"}]
SECONDS = 300


@pytest.fixture(scope="module")
def client(demo_url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{demo_url}/v1", api_key="none", timeout=SECONDS, max_retries=0)


@pytest.fixture(scope="module")
def model(client: openai.OpenAI) -> str:
    [only] = client.models.list().data
    return only.id


def ask(url: str, body: Any = None) -> tuple[int, str]:
    """Status and body of a plain request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def chat(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": MESSAGES, "max_tokens": 12, "temperature": 0, **more}


def test_models_are_listed(demo_url: str) -> None:
    status, body = ask(f"{demo_url}/v1/models")
    document = json.loads(body)
    assert (status, document["object"]) == (200, "list")
    assert [entry["object"] for entry in document["data"]] == ["model"]


def test_a_chat_completion_is_answered(demo_url: str, model: str) -> None:
    status, body = ask(f"{demo_url}/v1/chat/completions", chat(model))
    assert status == 200, body
    answer = json.loads(body)
    [choice] = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]
    assert choice["finish_reason"] in ("length", "stop")
    assert 1 <= answer["usage"]["completion_tokens"] <= 12
    assert answer["usage"]["prompt_tokens"] > 5


def test_the_same_question_has_the_same_answer(client: openai.OpenAI, model: str) -> None:
    answers = {client.chat.completions.create(**chat(model)).choices[0].message.content for _ in range(2)}
    assert len(answers) == 1


def test_a_stream_gives_the_same_text(client: openai.OpenAI, model: str) -> None:
    whole = client.chat.completions.create(**chat(model)).choices[0]
    stream = client.chat.completions.create(**chat(model, stream=True, stream_options={"include_usage": True}))
    text, reasons, usage = "", [], None
    for part in stream:
        usage = part.usage or usage
        for choice in part.choices:
            text += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == whole.message.content
    assert reasons == [whole.finish_reason]
    assert usage is not None
    assert usage.completion_tokens >= 1


def test_a_plain_stream_ends_with_done(demo_url: str, model: str) -> None:
    _, body = ask(f"{demo_url}/v1/chat/completions", chat(model, stream=True))
    events = [line.removeprefix("data:").strip() for line in body.splitlines() if line.startswith("data:")]
    assert events[-1] == "[DONE]"
    assert all(json.loads(event)["object"] == "chat.completion.chunk" for event in events[:-1])


def test_text_completions_are_answered(client: openai.OpenAI, model: str) -> None:
    answer = client.completions.create(model=model, prompt="This program is free", max_tokens=5, temperature=0)
    assert answer.choices[0].text


def test_several_clients_at_once(client: openai.OpenAI, model: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def one(_number: int) -> str | None:
        return client.chat.completions.create(**chat(model)).choices[0].message.content  # type: ignore[no-any-return]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(one, range(16)))) == 1


def test_an_unknown_model_is_404(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**chat("no-such-model"))


def test_a_bad_request_is_the_clients_fault(demo_url: str, model: str) -> None:
    status, _ = ask(f"{demo_url}/v1/chat/completions", {"model": model})
    assert status in (400, 422)
    status, _ = ask(f"{demo_url}/v1/chat/completions", chat(model, temperature=-1))
    assert status in (400, 422)


def test_it_goes_on_after_bad_requests(client: openai.OpenAI, model: str) -> None:
    assert client.chat.completions.create(**chat(model)).choices[0].message.content


def test_nothing_it_wrote_lies_outside_home_and_tmp(demo: Container) -> None:
    """`docker diff` lists what a container changed: a read-only root would have lost nothing."""
    changed = demo.engine.docker("diff", demo.name).out.splitlines()
    paths = [line.split(maxsplit=1)[1] for line in changed if not line.startswith("C ")]
    assert [path for path in paths if not path.startswith(("/home/ray", "/tmp"))] == []
