"""What a user mistypes, and what scripts hand over when a variable is not set: one message, the right exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.cli import common
from slipway.cli import main as cli
from slipway.testing.layouts import layout, real_labels
from tests.unit.registry.fake import running


@pytest.fixture(autouse=True)
def no_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLIPWAY_REGISTRY", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["biuld"], "Did you mean 'build'"),
        (["--variannt", "cpu"], "--variannt, did you mean --variant?"),
        (["push", "--revison=3"], "--revison=3, did you mean --revision?"),
        (["push", "--revision", "-1"], "'-1' is no whole number from 0 on"),
        (["gate", "--jobs", "0"], "'0' is no whole number from 1 on"),
        (["diff", "a", "b", "--jobs", "many"], "'many' is no whole number"),
        (["store", "list", "twice"], "doesn't know: twice"),
        (["copy", "a.example.com/x:1"], "TO"),
        (["push", "--registry", "foo"], "'foo' is no host"),
        (["push", "--registry", "a.example.com/Foo"], "has capitals"),
        (["verify", "--registry", "ftp://a.example.com/x"], "ftp://"),
        (["verify", "--registry", "a.example.com/x@sha256:abc"], "64 hexadecimal digits"),
        (["verify", "--registry", "a.example.com"], "no repository"),
        (["verify", "--registry", ""], "--registry: it is empty"),
        (["verify", "--registry", "a.example.com/x", "--key", ""], "--key: it is empty"),
        (["push", "--registry", "a.example.com", "--key", " "], "--key: it is empty"),
        (["sign", "a.example.com/x", "--key="], "--key: it is empty"),
        (["push", "--finish", __file__, "--registry", "a.example.com"], "--digest-file"),
        (["push", "here", "--finish", __file__, "--registry", "a.example.com"], "--finish pushes no images"),
        (["push", "here", "--registry", "a.example.com", "--digest-file", "/tmp"], "names a folder"),
        (["verify", "--one-layer", "--registry", "a.example.com/x:1"], "--one-layer looks at the cache"),
        (["verify", "--one-layer", "--key", "x"], "--one-layer looks at the cache"),
        (["cache", "prune", "--cache", __file__], "no folder"),
    ],
)
def test_wrong_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    seen = capsys.readouterr()
    assert said in seen.err
    assert seen.err.startswith("error: ") and not seen.out
    assert "what to do: " in seen.err or "Verbs: " in seen.err


def test_wrong_usage_is_json_where_json_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gate", "--json", "--nothing"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def test_help_still_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["push", "--help"])
    assert ended.value.code == 0
    assert "--registry" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["push", "gate"])
def test_an_image_that_was_not_built(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("versions.toml", "locks"):
        (tmp_path / name).symlink_to(common.ROOT / name)
    monkeypatch.setattr(common, "ROOT", tmp_path)
    monkeypatch.setenv("SLIPWAY_REGISTRY", "127.0.0.1:9")
    assert cli.main([verb, "--variant", "cuda"]) == 2
    assert "build.py build --release 2.60 --variant cuda --arch amd64" in capsys.readouterr().err


READERS = (
    ["verify", "--no-rebuild", "--registry", "REF"],
    ["diff", "REF", "REF"],
    ["copy", "REF", "127.0.0.1:9/elsewhere"],
)


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
@pytest.mark.parametrize("state", ["absent", "refused"])
def test_an_image_that_is_not_to_be_had(
    words: list[str], state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was pushed: it is no failed push. Gone is 4, what this machine may not see is 3."""
    with running() as registry:
        registry.auth = "basic" if state == "refused" else ""
        words = [word.replace("REF", f"{registry.host}/team/thing:1") for word in words]
        cache = ["--cache", str(tmp_path)] if words[0] == "diff" else []
        code = cli.main([*words, *cache])
    said = capsys.readouterr().err
    assert code == {"absent": 4, "refused": 3}[state], said
    assert "team/thing:1" in said and ("log in" in said) == (state == "refused")


def test_a_copy_says_which_of_two_registries_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout(tmp_path / "image", [10], real_labels())
    with running() as source, running() as target:
        words = ["push", str(tmp_path / "image"), "--registry", source.host, "--attest", "none", "--tag", "x"]
        assert cli.main(words) == 0
        target.auth = "basic"
        assert cli.main(["copy", f"{source.host}/slipway:x", f"{target.host}/slipway"]) == 5
    said = capsys.readouterr().err
    assert f"error: {target.host} did not do" in said and "log in" in said


@pytest.mark.parametrize(
    "words",
    [
        ["sbom", "--output", "/proc/nowhere/bill"],
        ["sbom", "--output", "/etc"],
        ["push", "here", "--registry", "a.example.com", "--digest-file", "/proc/nowhere/pushed.json"],
    ],
)
def test_a_file_that_cannot_be_written(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nobody thought of it: a sentence, with the path, and no traceback."""
    assert cli.main(words) == 3
    said = capsys.readouterr().err
    assert str(Path(words[-1]).parent if "push" in words else words[-1]) in said
    assert "what to do: " in said and "Traceback" not in said


@pytest.mark.parametrize("target", ["/dev/full", ""], ids=["full", "closed"])
def test_output_that_nobody_can_take(target: str) -> None:
    command = [sys.executable, str(common.ROOT / "build.py"), "store", "list", "--store", "/nowhere"]
    shell = f'exec "$@" {f"> {target}" if target else ">&-"}'
    done = subprocess.run(["bash", "-c", shell, "bash", *command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (3 if target else 0, False), done.stderr
    assert ("No space left" in done.stderr) == bool(target)
