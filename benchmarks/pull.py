"""How long containerd takes to pull and unpack an image from a registry of this machine, by how its layers are cut.

    python3 benchmarks/pull.py [--layout DIR] [--repeat 3] [--image NAME=LAYOUT …] [--output FILE]

The image as Slipway cuts it (zstd, many layers), the same files as one zstd layer and as one gzip layer, and any other
layout that is named (one of BuildKit's: `docker buildx build --output type=oci,tar=false,dest=DIR`). Each pull goes
into an empty containerd of its own, begun for it and removed after it; cases take turns. Settings:

    defaults    3 downloads at a time, one connection a layer
    fast        20 downloads, layers fetched in ranges of 16 MiB, unpigz found: what EKS' FastImagePull sets, as far as
                this containerd has it (unpacking several layers of one image at once came with 2.2)

Needs root, containerd and docker-registry. The registry is on the same disk, so that the network is not what is slow.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.host import process  # noqa: E402
from slipway.image.manifest import Document, canonical, index  # noqa: E402
from slipway.inspect.layout import LayerRef, Layout, open_layout  # noqa: E402
from slipway.inspect.stream import LayerStream  # noqa: E402
from slipway.push.content import read_content  # noqa: E402
from slipway.registry.client import Repository  # noqa: E402
from slipway.registry.reference import parse_reference  # noqa: E402
from slipway.sources.http import Http  # noqa: E402
from slipway.testing.registry import registry  # noqa: E402

SETTINGS = {
    "defaults": {"max_concurrent_downloads": 3, "concurrent_layer_fetch_buffer": 0},
    "fast": {"max_concurrent_downloads": 20, "concurrent_layer_fetch_buffer": 16 << 20},
}
NO_HELPERS = {"CONTAINERD_DISABLE_PIGZ": "1", "CONTAINERD_DISABLE_IGZIP": "1"}
"""containerd decompresses gzip with these programs where it finds them; a node has none unless somebody installs it."""

END = bytes(1024)
LEVELS = {"gzip": 6, "zstd": 3}
"""docker's and BuildKit's gzip level, and ours of zstd."""


def tar_bytes(layers: tuple[LayerRef, ...]) -> Iterator[bytes]:
    """All layers' members as one tar; a path that comes twice is the later one's, as when unpacked one by one."""
    for ref in layers:
        held = b""
        with ref.path.open("rb") as file:
            stream = LayerStream(ref, file)
            while chunk := stream.read(1 << 20):
                held += chunk
                yield held[: -len(END)]
                held = held[-len(END) :]
            stream.finish()
        if held != END:
            raise SystemExit(f"the tar of layer {ref.name} does not end as ours do")
    yield END


def one_layer(source: Layout, folder: Path, how: str) -> Path:
    """The same image with one layer, as an OCI layout."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    tar = hashlib.sha256()
    part = blobs / "part"
    with part.open("wb") as file, _compressor(how, file) as out:
        for chunk in tar_bytes(source.layers):
            tar.update(chunk)
            out.write(chunk)
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    part.rename(blobs / digest)
    layer = {
        "mediaType": f"application/vnd.oci.image.layer.v1.tar+{how}",
        "digest": f"sha256:{digest}",
        "size": (blobs / digest).stat().st_size,
    }
    config = {**source.config, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{tar.hexdigest()}"]}, "history": []}
    made = Document("application/vnd.oci.image.config.v1+json", canonical(config))
    document = {"schemaVersion": 2, "mediaType": source.manifest["mediaType"], "config": made.descriptor()}
    top = Document(str(source.manifest["mediaType"]), canonical({**document, "layers": [layer]}))
    for each in (made, top):
        (blobs / each.digest[7:]).write_bytes(each.content)
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    entry = top.descriptor(platform={"architecture": source.architecture, "os": "linux"})
    (folder / "index.json").write_bytes(index([entry]).content)
    return folder


def _compressor(how: str, file: Any) -> Any:
    if how == "gzip":
        return gzip.GzipFile("", "wb", LEVELS[how], file, mtime=0)
    return zstandard.ZstdCompressor(LEVELS[how], threads=os.cpu_count() or 1).stream_writer(file, closefd=False)


def push(folder: Path, port: int, name: str) -> tuple[str, dict[str, int]]:
    """Into the registry; the reference to pull, and what it weighs."""
    content = read_content(folder)
    reference = f"127.0.0.1:{port}/bench/{name}:1"
    repository = Repository(parse_reference(reference), Http())
    for blob in content.blobs:
        repository.push_blob(blob)
    repository.put_manifest(content.manifest, content.media_type, "1")
    return reference, {"layers": len(content.layout.layers), "bytes": content.layout.size}


@contextlib.contextmanager
def containerd(folder: Path, settings: dict[str, int], helpers: bool) -> Iterator[Path]:
    """The socket of a containerd that has nothing yet; everything of it is gone afterwards."""
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    config = folder / "config.toml"
    folder.mkdir()
    config.write_text(f"version = 3\n[plugins.'io.containerd.transfer.v1.local']\n{lines}")
    socket = folder / "sock"
    words = ["containerd", "--config", config, "--root", folder / "root", "--state", folder / "state"]
    environment = {"PATH": process.search_path(), **({} if helpers else NO_HELPERS)}
    log = (folder / "log").open("wb")
    daemon = subprocess.Popen([*words, "--address", socket], env=environment, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 30
        while subprocess.run(["ctr", "--address", socket, "version"], capture_output=True, check=False).returncode:
            if daemon.poll() is not None or time.monotonic() > until:
                raise SystemExit((folder / "log").read_text()[-2000:])
            time.sleep(0.1)
        yield socket
    finally:
        daemon.terminate()
        daemon.wait(30)
        log.close()
        shutil.rmtree(folder)


def pull(folder: Path, reference: str, setting: str) -> float:
    """Seconds from asking until the image is unpacked."""
    with containerd(folder, SETTINGS[setting], setting == "fast") as socket:
        started = time.perf_counter()
        words = ["ctr", "--address", str(socket), "images", "pull", "--plain-http", reference]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if done.returncode:
            raise SystemExit(f"{done.stdout[-1000:]}\n{done.stderr}")
        listed = subprocess.run(["ctr", "--address", str(socket), "snapshots", "list"], capture_output=True, text=True)
        if "Committed" not in listed.stdout:
            raise SystemExit(f"nothing was unpacked: {listed.stdout}")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", type=Path, default=ROOT / "out" / "2.60-cpu-amd64")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=LAYOUT", help="compare this one, too")
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    source = open_layout(args.layout)
    seconds: dict[str, list[float]] = {}
    weights = {}
    with tempfile.TemporaryDirectory(prefix="slipway-pull-") as name, registry(Path(name) / "registry") as port:
        folder = Path(name)
        references = {}
        references["ours"], weights["ours"] = push(args.layout, port, "ours")
        for how in ("zstd", "gzip"):
            case = f"one {how} layer"
            references[case], weights[case] = push(one_layer(source, folder / how, how), port, how)
            shutil.rmtree(folder / how)
            print(f"made {case}", file=sys.stderr, flush=True)
        for number, extra in enumerate(args.image):
            case, _, layout = extra.partition("=")
            references[case], weights[case] = push(Path(layout), port, f"extra{number}")
        for _ in range(args.repeat):
            for setting in args.settings:
                for case, reference in references.items():
                    took = pull(folder / "containerd", reference, setting)
                    seconds.setdefault(f"{case}, {setting}", []).append(took)
                    print(f"{case}, {setting}: {took:.1f} s", file=sys.stderr, flush=True)
    version = subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    document = {
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "load": os.getloadavg()[0]},
        "containerd": version,
        "unpigz": shutil.which("unpigz") is not None,
        "settings": {setting: SETTINGS[setting] for setting in args.settings},
        "images": weights,
        "seconds": {
            case: {"best": round(min(times), 2), "median": round(statistics.median(times), 2), "all": times}
            for case, times in seconds.items()
        },
    }
    text = json.dumps(document, indent=1)
    if args.output:
        args.output.write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
