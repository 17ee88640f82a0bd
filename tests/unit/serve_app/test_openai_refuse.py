"""The closed list of requests that no engine is asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from serve_app.openai import refuse
from serve_app.openai.errors import ApiError


@pytest.mark.parametrize("name", ["kv_transfer_params", "allowed_token_ids"])
@pytest.mark.parametrize("value", [{"do_remote_prefill": True}, [1, 2], []])
def test_refused_with_the_parameter_named(name: str, value: object) -> None:
    with pytest.raises(ApiError) as caught:
        refuse.check(SimpleNamespace(**{name: value}))
    assert caught.value.status == 400
    assert caught.value.param == name


def test_everything_else_goes_on() -> None:
    refuse.check(SimpleNamespace(prompt="x", kv_transfer_params=None, allowed_token_ids=None, logit_bias={"1": 1}))
    refuse.check(SimpleNamespace(input="an embedding has none of these"))
