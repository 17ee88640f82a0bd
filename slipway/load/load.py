"""Streams an image into an engine through `docker load`, and checks that the engine has what was sent."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slipway.engine.model import Engine
from slipway.errors import BuildFailed, MissingError
from slipway.host import process
from slipway.layers.entry import Entry
from slipway.layers.tar import write_tar
from slipway.load import archive, layout
from slipway.load import reference as names
from slipway.progress import Progress

FIRST_WITH_ZSTD = 23
"""Docker's release that learnt zstd: https://github.com/moby/moby/pull/41759."""

_FULL = re.compile(r"no space left|disk quota", re.IGNORECASE)


@dataclass(frozen=True)
class Loaded:
    """An image in an engine: its name there, the engine's ID for it, and how it got there."""

    reference: str
    image_id: str
    how: str


def load(folder: Path, engine: Engine, reference: str = "", progress: Progress | None = None) -> Loaded:
    """Load the image of the OCI layout in `folder` under `reference` (empty: the name that stands in the layout).

    Nothing is sent when the engine has it under that name already. Raises BuildFailed when the engine refuses it,
    WrongArtifact when a blob is damaged (the engine then has nothing new), MissingError when its disk is full.
    """
    progress = progress or Progress()
    image = layout.read(folder)
    name = names.familiar(reference or image.reference or "slipway:latest")
    if (there := _id_if_same(engine, name, image)) is not None:
        return Loaded(name, there, "was there")
    said = None
    if takes_zstd(engine.version):
        how = "sent as it is"
        with progress.step("load", total=image.size, unit="bytes") as step:
            said = _send(engine, archive.entries(image, name, step.advance))
        if said is not None:
            progress.warn(f"the engine refused the layers as they are ({said.splitlines()[-1]}); sending them plain")
    if said is not None or not takes_zstd(engine.version):
        how = "sent uncompressed"
        with progress.step("load", total=image.size, unit="bytes") as step:
            said = _send(engine, archive.plain_entries(image, name, step.advance))
    if said is not None:
        raise BuildFailed(f"the engine refused the image\n{process.last_lines(said)}", where=folder)
    found = _id_if_same(engine, name, image) or _id_if_same_layers(engine, name, image)
    if found is None:
        raise BuildFailed(
            f"the engine loaded something else under {name}",
            where=folder,
            why=f"its image is neither {image.manifest.digest} nor {image.config.digest}",
        )
    return Loaded(name, found, how)


def takes_zstd(version: str) -> bool:
    """Whether an engine of this version may know zstd. 20.10 says "invalid tar header" after reading everything, so
    it is not even tried there; newer ones that refuse it are found out by their answer.
    """
    major = version.partition(".")[0]
    return not major.isdigit() or int(major) >= FIRST_WITH_ZSTD


def _id_if_same(engine: Engine, name: str, image: layout.Layout) -> str | None:
    """The engine's ID of `name` when that is this image: its manifest's digest, or its configuration's."""
    found = engine.image(name)
    if found is None or found.get("Id") not in (image.manifest.digest, image.config.digest):
        return None
    return str(found["Id"])


def _id_if_same_layers(engine: Engine, name: str, image: layout.Layout) -> str | None:
    """The same for layers sent uncompressed: the containerd store then writes a manifest of its own."""
    found = engine.image(name)
    if found is None or tuple((found.get("RootFS") or {}).get("Layers") or ()) != image.diff_ids:
        return None
    return str(found["Id"])


def _send(engine: Engine, members: Iterator[Entry]) -> str | None:
    """Pipe one tar into `docker load`. None when that went well, else what the engine said."""
    command = ["docker", "load"]
    with subprocess.Popen(
        command,
        env=engine.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as docker:
        said: list[bytes] = []
        listener = threading.Thread(target=_listen, args=(docker, said.append), daemon=True)
        listener.start()
        try:
            _feed(docker, members)
        except BaseException:
            # Damage or an interrupt: the engine must not see the end of the stream, or it would take what it has.
            docker.kill()
            docker.wait()
            _close(docker)
            raise
        docker.wait()
        listener.join()
    text = b"".join(said).decode(errors="replace").strip()
    if docker.returncode == 0:
        return None
    if _FULL.search(text):
        raise MissingError("the engine's disk is full", why=process.last_lines(text), remedy="docker system prune")
    return text or f"docker load ended with exit code {docker.returncode}"


def _feed(docker: subprocess.Popen[bytes], members: Iterator[Entry]) -> None:
    """Write the tar. A docker that has given up is no error here: its exit code and last words say why."""
    if docker.stdin is None:
        return
    try:
        write_tar(members, docker.stdin)
        docker.stdin.close()
    except BrokenPipeError:
        _close(docker)


def _close(docker: subprocess.Popen[bytes]) -> None:
    """Close the pipe to a docker that no longer reads; what was still buffered is lost on purpose."""
    if docker.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            docker.stdin.close()


def _listen(docker: subprocess.Popen[bytes], keep: Callable[[bytes], None]) -> None:
    if docker.stdout is not None:
        for line in docker.stdout:
            keep(line)
