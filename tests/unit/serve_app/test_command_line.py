"""--address, times, misspelt words of the command line: told at once."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from serve_app.cli import address  # noqa: E402
from serve_app.cli import main as cli  # noqa: E402
from serve_app.errors import MissingError, UsageError  # noqa: E402


@pytest.mark.parametrize("text", ["foo", ":6379", "foo:", "foo:x", "foo:0", "foo:99999"])
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        address.check(text)


@pytest.mark.parametrize("text", ["auto", "ray://head:10001"])
def test_what_ray_finds_by_itself(text: str) -> None:
    address.check(text)


def test_somebody_listens_and_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        address.check(here)
    with pytest.raises(MissingError, match=here):
        address.check(here)


@pytest.mark.parametrize("verb", ["drain", "serve"])
def test_at_once_and_without_ray(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "llm.yaml").write_text("model: {id: a, source: org/a}\nprefill: {}\ndecode: {}\n")
    words = [verb, "--address", "127.0.0.1:1", *([str(tmp_path / "llm.yaml")] if verb == "serve" else [])]
    begun = time.monotonic()
    assert cli.main(words) == 3
    assert time.monotonic() - begun < 10
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["serve", "--demo", "--ready-timeout"], ["drain", "--timeout"]], ids=lambda w: w[0])
@pytest.mark.parametrize("value", ["-1", "0", "soon", "inf", "nan"])
def test_times(words: list[str], value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, value])
    assert ended.value.code == 2
    assert "no number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sevre"], "did you mean serve?"),
        (["serve", "--demmo"], "did you mean --demo?"),
        (["drain", "--adress=x"], "did you mean --address?"),
        (["serve", "--demo", "--log-format", "xml"], "invalid choice: 'xml' (choose from"),
        (["explain"], "CONFIG.yaml; serve_app explain --help"),
        ([], "VERB; serve_app --help"),
    ],
)
def test_misspelt(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert said in told and told.startswith("serve_app: ") and told.count("\n") == 1
