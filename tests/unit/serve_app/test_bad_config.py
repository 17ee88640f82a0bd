"""`serve_app serve --check` and `explain` find what a builder would refuse, by the paths and lines of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("yaml")

from serve_app.cli import main as cli  # noqa: E402

SHORT = "model: {id: a, source: org/a}\nprefill: {}\ndecode: {}\n"
"""Line 1 is the model, 2 prefill, 3 decode."""

CASES = [
    (SHORT.replace("prefill: {}", "prefill: {replicas: 0}"), "line 2: prefill.replicas: must be at least 1, not 0"),
    (SHORT + "kv_transfer: {min_tokens: -1}\n", "line 4: kv_transfer.min_tokens: must be 0 or more, not -1"),
    (
        SHORT.replace("org/a}", "org/a, engine: {tensor_parallel_size: 0}}"),
        "line 1: model.engine.tensor_parallel_size: must be at least 1",
    ),
    (
        SHORT.replace("decode: {}", "decode: {engine: {max_num_seqs: -3}}"),
        "line 3: decode.engine.max_num_seqs: must be at least 1",
    ),
    (
        SHORT.replace("decode: {}", "decode: {replicas: two}"),
        "decode.replicas: must be a whole number or auto, not 'two'",
    ),
    (SHORT.replace("id: a", 'id: ""'), "line 1: model.id: is empty"),
    (
        "prefill_config: {model_loading_config: {model_id: a}}\ndecode_config: {model_loading_config: {model_id: b}}\n",
        "line 2: decode_config.model_loading_config.model_id: is 'b' and prefill's is 'a'",
    ),
    (
        "llm_configs:\n- model_loading_config: {model_id: a}\n"
        "  deployment_config: {autoscaling_config: {min_replicas: 5, max_replicas: 2}}\n",
        "line 3: llm_configs[0].deployment_config.autoscaling_config.max_replicas: is 2, less than min_replicas",
    ),
    ("model: {id: a}\n", "line 1: model: neither prefill nor decode stands beside it"),
    ("", "must be a mapping: model with prefill and decode"),
    (
        "applications:\n- import_path: serve_app:build_pd_app\n  args:\n    model: {id: a}\n"
        "    prefill: {replicas: 0}\n    decode: {}\n",
        "line 5: applications[0].args.prefill.replicas: must be at least 1",
    ),
]


@pytest.mark.parametrize("verb", [["serve", "--check"], ["explain"]], ids=lambda verb: verb[0])
@pytest.mark.parametrize(("text", "said"), CASES, ids=[said.partition(": must")[0] for _, said in CASES])
def test_found_before_anything_starts(
    verb: list[str], text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "llm.yaml").write_text(text)
    assert cli.main([*verb, str(tmp_path / "llm.yaml")]) == 2
    seen = capsys.readouterr()
    assert said in seen.err and "1 problem\n" in seen.err
    assert not seen.out


def test_what_is_right_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "llm.yaml").write_text(SHORT)
    assert cli.main(["serve", "--check", str(tmp_path / "llm.yaml")]) == 0
    assert capsys.readouterr().out.endswith("llm.yaml: fine\n")
