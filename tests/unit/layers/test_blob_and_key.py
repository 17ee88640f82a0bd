"""Blobs: the same tar gives the same bytes; keys: the same inputs give the same key, and nothing else does."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.layers import blob as blob_module
from slipway.layers import key as key_module
from slipway.layers.blob import Blob, BlobWriter
from slipway.layers.key import canonical, layer_key


def written(path: Path, pieces: list[bytes]) -> Blob:
    with BlobWriter(path) as writer:
        for piece in pieces:
            writer.write(piece)
    assert writer.blob is not None
    return writer.blob


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 700_000), max_size=5), st.integers(0, 255))
def test_bytes_do_not_depend_on_how_they_came(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("blob")
    data = bytes((number * number + seed) % 251 for number in range(1000)) * 600
    places = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
    pieces = [data[start:end] for start, end in zip(places, places[1:], strict=False)]
    one, other = written(folder / "one", [data]), written(folder / "other", pieces)
    assert one == other
    raw = (folder / "one").read_bytes()
    assert raw == (folder / "other").read_bytes()
    assert zstandard.ZstdDecompressor().stream_reader(raw).read() == data
    assert one.diff_id == "sha256:" + hashlib.sha256(data).hexdigest()
    assert one.digest == "sha256:" + hashlib.sha256(raw).hexdigest()
    assert (one.size, one.tar_size) == (len(raw), len(data))


def test_empty_blob_is_a_frame(tmp_path: Path) -> None:
    assert written(tmp_path / "b", []).tar_size == 0
    assert zstandard.ZstdDecompressor().stream_reader((tmp_path / "b").read_bytes()).read() == b""


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), BlobWriter(tmp_path / "b") as writer:
        writer.write(b"1" * 1_000_000)
        raise RuntimeError
    assert writer.blob is None
    assert list(tmp_path.iterdir()) == []


def test_report_counts_all_bytes(tmp_path: Path) -> None:
    counts: list[int] = []
    with BlobWriter(tmp_path / "b") as writer:
        writer.report = counts.append
        for _ in range(10):
            writer.write(b"1" * 100_000)
    assert sum(counts) == 1_000_000


def test_blob_through_json() -> None:
    blob = Blob("sha256:" + "a" * 64, 1, "sha256:" + "b" * 64, 2)
    assert Blob.from_json(blob.as_json()) == blob
    for wrong in ({"digest": "md5:1"}, {"size": "1"}, {"diff_id": "sha256:abc"}, {"more": 1}, {"digest": 5}):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            Blob.from_json({**blob.as_json(), **wrong})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_order_of_keys_does_not_matter(inputs: dict[str, object]) -> None:
    assert layer_key("x", inputs) == layer_key("x", dict(reversed(inputs.items())))


@given(JSON, JSON)
def test_other_inputs_other_key(one: object, other: object) -> None:
    assert (canonical(one) == canonical(other)) == (repr(_sorted(one)) == repr(_sorted(other)))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", [1.5, {1}, b"x", Path("x"), {1: 2}, {"a": [object()]}])
def test_what_has_no_single_spelling(value: object) -> None:
    with pytest.raises(TypeError):
        layer_key("x", {"a": value})


def test_key_covers_kind_format_and_compressor(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {layer_key("wheels", {"a": 1}), layer_key("debian", {"a": 1})}
    for module, name, value in (
        (blob_module, "LEVEL", 4),
        (key_module.tar, "FORMAT", 999),
        (key_module, "FORMAT", 999),
        (blob_module.zstandard, "ZSTD_VERSION", (9, 9, 9)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            keys.add(layer_key("wheels", {"a": 1}))
    assert len(keys) == 6
    assert all(len(key) == 64 for key in keys)
