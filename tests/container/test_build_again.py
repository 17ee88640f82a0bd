"""Builds that are interrupted, damaged, doubled or given nothing to write to: same digest in the end, or a clear no.

The Debian and libfabric layers are taken from the cache that built the image under test; test_reproducible.py makes
those again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slipway.cli.common import ROOT
from slipway.lock import file
from tests.container import builds


@pytest.fixture(scope="module")
def plan() -> Mapping[str, Any]:
    """The default image's plan in the default cache: what an undisturbed build made."""
    ended = builds.run("plan")
    assert ended.code == 0, ended.said
    if any(layer["state"] == "miss" for layer in ended.document["layers"] if layer["name"] in builds.SYSTEM):
        pytest.skip("the default cache has no finished image; python3 build.py makes one")
    return ended.document


@pytest.fixture(scope="module")
def digest(plan: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    ended = builds.run("build", "--output", str(tmp_path_factory.mktemp("whole")))
    assert ended.code == 0, ended.said
    found: str = ended.document["digest"]
    return found


@pytest.fixture
def cache(plan: Mapping[str, Any], tmp_path: Path) -> Path:
    return builds.cache_with(builds.system_keys(plan["layers"]), tmp_path / "cache")


def started(*words: str) -> subprocess.Popen[bytes]:
    """A build that can be interrupted also where this test runs in a shell's background, which ignores SIGINT."""
    return subprocess.Popen(
        builds.command("build", *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )


def wait_for_half_a_layer(build: subprocess.Popen[bytes], cache: Path) -> None:
    """Until wheels' layers are being written."""
    deadline = time.monotonic() + 300
    while not list(cache.glob("layers/*/*.part")):
        assert build.poll() is None, "the build ended before it could be disturbed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.5)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killed_mid_build_and_built_again(how: signal.Signals, cache: Path, digest: str, tmp_path: Path) -> None:
    words = ("--cache", str(cache), "--output", str(tmp_path / "out"))
    build = started(*words)
    wait_for_half_a_layer(build, cache)
    build.send_signal(how)
    _, said = build.communicate(timeout=60)
    assert build.returncode == (-how if how == signal.SIGKILL else 130), said.decode()
    assert not (tmp_path / "out/index.json").exists(), "an unfinished build left an image"
    again = builds.run("build", *words)
    assert again.code == 0, again.said
    assert again.document["digest"] == digest


def test_two_builds_at_once_make_each_layer_once(cache: Path, digest: str, tmp_path: Path) -> None:
    outs = [tmp_path / name for name in ("a", "b")]
    both = [
        subprocess.Popen(
            builds.command("build", "--cache", str(cache), "--output", str(out)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for out in outs
    ]
    for build in both:
        out, said = build.communicate(timeout=900)
        assert build.returncode == 0, said
        assert digest in out
    assert builds.blobs(outs[0]) == builds.blobs(outs[1])


def test_a_wheel_damaged_in_the_store_with_size_and_time_kept(cache: Path, digest: str, tmp_path: Path) -> None:
    lock = file.read(ROOT / "locks/2.60-cpu-amd64.toml")
    wheel = next(wheel for wheel in lock.wheels if wheel.name == "aiohttp")
    store = Path(os.environ.get("SLIPWAY_STORE") or builds.cache_home() / "store")
    mine = tmp_path / "store"
    linked(store, mine)
    victim = mine / "sha256" / wheel.sha256[:2] / wheel.sha256
    content, before = bytearray(victim.read_bytes()), victim.stat()
    content[len(content) // 2] ^= 1
    victim.unlink()
    victim.write_bytes(content)
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    words = ("build", "--store", str(mine), "--cache", str(cache), "--output", str(tmp_path / "out"))
    ended = builds.run(*words)
    if ended.code:  # the damage was met while a layer was written
        assert ended.code == 4, ended.said
        assert wheel.sha256 in ended.said
        assert not (tmp_path / "out/index.json").exists()
        ended = builds.run(*words)
    assert ended.code == 0, ended.said
    assert ended.document["digest"] == digest


def linked(store: Path, mine: Path) -> None:
    """A store whose files are hard links to another's."""
    for path in store.glob("s*/??/*"):
        target = mine / path.relative_to(store)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)


def test_a_flipped_nibble_in_the_lock(cache: Path, tmp_path: Path) -> None:
    text = (ROOT / "locks/2.60-cpu-amd64.toml").read_text()
    lock = file.read(ROOT / "locks/2.60-cpu-amd64.toml")
    wheel = next(wheel for wheel in lock.wheels if wheel.name == "six")
    flipped = wheel.sha256[:-1] + ("0" if wheel.sha256[-1] != "0" else "1")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/2.60-cpu-amd64.toml").write_text(text.replace(wheel.sha256, flipped))
    ended = builds.run(
        *("build", "--locks", str(tmp_path / "locks"), "--cache", str(cache), "--output", str(tmp_path / "out"))
    )
    assert ended.code == 4, ended.said
    assert flipped in ended.said and wheel.sha256 in ended.said


def test_an_output_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere/out")):
        ended = builds.run("build", "--output", str(place))
        assert ended.code == 3, (place, ended.said)
        assert "--output" in ended.said


def test_a_disk_that_is_full(cache: Path, tmp_path: Path) -> None:
    """A cache on a file system of 16 MB: said before anything is made, with the bytes that are needed."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)
    try:
        ended = builds.run("build", "--cache", str(small), "--output", str(tmp_path / "out"))
        assert ended.code == 3, ended.said
        assert "free" in ended.said and "MB" in ended.said
        assert not list(small.glob("layers/*/*")), "something was made all the same"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_only_serve_app_changed(plan: Mapping[str, Any], digest: str, tmp_path: Path) -> None:
    """One layer is made, of less than 1 MB, and all others are the very same blobs."""
    checkout = tmp_path / "checkout"
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        source = ROOT / name
        if source.is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes(source.read_bytes())
            (checkout / name).chmod(source.stat().st_mode & 0o777)
    (checkout / ".venv").symlink_to(ROOT / ".venv")
    with (checkout / "serve_app/src/serve_app/__init__.py").open("a") as source_file:
        source_file.write(f"# changed {uuid.uuid4()}\n")  # never built before, also when this test ran before
    done = subprocess.run(
        [builds.command()[0], str(checkout / "build.py"), "build", "--json", "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    made = [layer for layer in document["layers"] if layer["state"] == "made"]
    assert [layer["name"] for layer in made] == ["serve-app"]
    assert document["bytes_made"] < 1_000_000
    before = {layer["key"] for layer in plan["layers"]} - {made[0]["key"]}
    assert {layer["key"] for layer in document["layers"]} - {made[0]["key"]} <= before
    assert document["digest"] != digest
