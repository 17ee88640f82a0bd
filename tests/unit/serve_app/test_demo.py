"""The demo model: complete, deterministic, readable by the safetensors format's rules."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from serve_app.demo import config, shape, text
from serve_app.errors import MissingError

numpy = pytest.importorskip("numpy")

from serve_app.demo import weights  # noqa: E402


def written(vocabulary: int = 40) -> bytes:
    out = io.BytesIO()
    assert weights.write(out, vocabulary) == len(out.getvalue())
    return out.getvalue()


def test_the_same_bytes_each_time() -> None:
    assert written() == written()


def test_header_and_tensors_fit_together() -> None:
    data = written()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    end = 0
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        assert first == end, name
        assert last - first == 4 * math.prod(entry["shape"])
        end = last
    assert 8 + length + end == len(data)


def test_the_weights_are_finite_and_spread() -> None:
    data = written()
    length = int.from_bytes(data[:8], "little")
    values = numpy.frombuffer(data[8 + length :], dtype="<f4")
    assert numpy.isfinite(values).all()
    assert 0.01 < values.std() < 1


def test_no_two_layers_are_alike() -> None:
    data = written()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    pieces = []
    for layer in range(shape.LAYERS):
        first, last = header[f"model.layers.{layer}.self_attn.q_proj.weight"]["data_offsets"]
        pieces.append(data[8 + length + first : 8 + length + last])
    assert len(set(pieces)) == shape.LAYERS


def test_training_text_is_limited_and_skips_links(tmp_path: Path) -> None:
    licences = tmp_path / "licences"
    licences.mkdir()
    (licences / "A").write_text("alpha")
    (licences / "B").symlink_to("A")
    (licences / "C").write_text("gamma")
    assert list(text.training_text(licences, tmp_path))[:2] == ["alpha", "gamma"]
    assert sum(len(piece) for piece in text.training_text()) <= text.LIMIT


def test_without_licences_the_standard_library_is_enough(tmp_path: Path) -> None:
    assert sum(len(piece) for piece in text.training_text(tmp_path / "none")) > 100_000


def test_a_folder_that_can_not_be_written_says_so(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from serve_app.demo import model

    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(MissingError, match="can't be written"):
        model.make(blocked / "model")
    with pytest.raises(MissingError, match="SERVE_APP_CACHE"):
        model.cached(blocked)


def test_the_whole_model_twice(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from serve_app.demo import model

    for name in ("one", "two"):
        model.make(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert "tokenizer.json" in files
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    assert model.cached(tmp_path / "cache") == model.cached(tmp_path / "cache")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_demo_passes_its_own_checks(kind: config.hardware.Kind, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    from serve_app.config import document, forms

    forms.plan(document.Document(config.config(tmp_path, kind)))
