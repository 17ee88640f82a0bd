"""The engine itself: an own one leaves the machine as it was, and both of its image stores take our tar."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import zstandard

from slipway.cli.test import FIREWALL
from slipway.engine import daemon, firewall
from slipway.engine.model import Engine
from slipway.host import process
from slipway.image.manifest import CONFIG, INDEX, MANIFEST, canonical
from slipway.layers.blob import MEDIA_TYPE
from slipway.layers.entry import file_entry
from slipway.layers.tar import write_tar
from slipway.load.load import load


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An image of two small layers; it can't run, but it can be loaded."""
    folder = tmp_path / "layout"
    (folder / "blobs" / "sha256").mkdir(parents=True)

    def add(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    layers, diff_ids = [], []
    for name in ("one", "two"):
        tar = io.BytesIO()
        write_tar([file_entry(f"opt/{name}", os.urandom(100_000))], tar)
        diff_ids.append(f"sha256:{hashlib.sha256(tar.getvalue()).hexdigest()}")
        layers.append(add(zstandard.compress(tar.getvalue()), MEDIA_TYPE))
    settings = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    config = add(canonical(settings), CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
    entry = add(canonical(manifest), MANIFEST)
    (folder / "index.json").write_bytes(canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}))
    (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    return folder


@pytest.mark.parametrize("containerd", [True, False], ids=["containerd store", "classic store"])
def test_both_image_stores_take_it(engine: Engine, layout: Path, tmp_path: Path, containerd: bool) -> None:
    if os.geteuid() != 0 or process.which("dockerd") is None:
        pytest.skip("an engine of our own takes root and dockerd")
    before = firewall.take()
    with daemon.own(tmp_path / "data", containerd_store=containerd, network=False) as own:
        assert own.store == ("containerd" if containerd else "classic")
        loaded = load(layout, own, "slipway-test:tiny")
        assert loaded.how == "sent as it is"
        assert load(layout, own, "slipway-test:tiny").how == "was there"
        socket = Path(own.address.removeprefix("unix://"))
        assert socket.exists()
    assert not socket.parent.exists()
    assert not any((tmp_path / "data").iterdir())
    assert daemon.left_over(str(socket.parent)) == []
    assert firewall.take() == before


def test_the_firewall_is_as_it_was_before_the_engine_started() -> None:
    before = os.environ.get(FIREWALL)
    if not before:
        pytest.skip("the engine was not started by this test run")
    assert firewall.take() == firewall.Snapshot.from_text(before)
