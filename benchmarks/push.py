"""How long pushes of a real image take: cold, again, after a change of serve_app; beside `crane push` of the layout.

    python3 benchmarks/push.py [--layout DIR] [--repeat 3] [--crane PROGRAM] [--output FILE]

The registry is Debian's docker-registry on this machine, on the same disk, empty for each cold push; the layout's files
are read once before, so that no side pays for a cold cache of files. Times are wall clock seconds of the whole command,
its start included, the best and the median of `repeat` runs. "serve_app changed" pushes the same image with one small
layer replaced (as a change of serve_app does) into the registry that has the first. crane 0.20 is in Debian 14; where
it is not installed, its rows are missing.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.image.manifest import Document, canonical, index  # noqa: E402
from slipway.push.content import Content, read_content  # noqa: E402
from slipway.testing.registry import registry  # noqa: E402


def changed(source: Content, folder: Path, layer: str = "app") -> Content:
    """The image with other bytes for its smallest layer of that name, else for its smallest: what a change makes."""
    layers = source.layout.layers
    chosen = next((ref for ref in layers if layer in ref.name), min(layers, key=lambda ref: ref.size))
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for blob in source.blobs:
        os.link(source.layout.folder / "blobs" / "sha256" / blob.digest[7:], blobs / blob.digest[7:])
    content = chosen.path.read_bytes() + b"\0"
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    config = json.loads(json.dumps(source.layout.config))
    config["rootfs"]["diff_ids"][chosen.number] = f"sha256:{digest}"
    manifest = json.loads(source.manifest)
    manifest["layers"][chosen.number] |= {"digest": f"sha256:{digest}", "size": len(content)}
    made = Document(manifest["config"]["mediaType"], canonical(config))
    manifest["config"] = made.descriptor()
    top = Document(source.media_type, canonical(manifest))
    for document in (made, top):
        (blobs / document.digest[7:]).write_bytes(document.content)
    entry = top.descriptor(platform={"architecture": source.layout.architecture, "os": "linux"})
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (folder / "index.json").write_bytes(index([entry]).content)
    return read_content(folder)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def ours(image: Content, port: int, *more: str) -> dict[str, Any]:
    """`build.py push`, as a user runs it."""
    words = [sys.executable, str(ROOT / "build.py"), "push", str(image.layout.folder), "--json", *more]
    done = subprocess.run([*words, "--registry", f"127.0.0.1:{port}/ours"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    (row,) = json.loads(done.stdout)["images"]
    return dict(row)


def crane(program: str, image: Content, port: int) -> None:
    words = [program, "push", "--insecure", str(image.layout.folder), f"127.0.0.1:{port}/crane/slipway:cold"]
    subprocess.run(words, check=True, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", type=Path, default=ROOT / "out" / "2.60-cpu-amd64")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--crane", default=shutil.which("crane"))
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    image = read_content(args.layout)
    for blob in image.blobs:  # into the cache of files
        (args.layout / "blobs" / "sha256" / blob.digest[7:]).read_bytes()
    rows: dict[str, list[float]] = {}
    sent: dict[str, int] = {}
    for _ in range(args.repeat):
        with tempfile.TemporaryDirectory(prefix="slipway-push-", dir=args.layout.resolve().parent) as name:
            folder = Path(name)
            other = changed(image, folder / "changed")
            if args.crane:
                with registry(folder / "crane") as port:
                    seconds, _none = timed(lambda: crane(args.crane, image, port))  # noqa: B023
                    rows.setdefault("crane push, cold", []).append(seconds)
                    seconds, _none = timed(lambda: crane(args.crane, image, port))  # noqa: B023
                    rows.setdefault("crane push, again", []).append(seconds)
                shutil.rmtree(folder / "crane")
            with registry(folder / "ours") as port:
                for case, what, more in (
                    ("cold", image, ()),
                    ("again", image, ()),
                    ("serve_app changed", other, ("--revision", "1")),
                ):
                    seconds, row = timed(lambda: ours(what, port, *more))  # noqa: B023
                    rows.setdefault(case, []).append(seconds)
                    sent[case] = row["bytes_sent"]
    document = {
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "load": os.getloadavg()[0]},
        "image_bytes": sum(blob.size for blob in image.blobs),
        "attached": "SBOM (SPDX, CycloneDX) and provenance, unsigned",
        "seconds": {
            case: {"best": round(min(times), 3), "median": round(statistics.median(times), 3), "all": times}
            for case, times in rows.items()
        },
        "bytes_sent": sent,
    }
    text = json.dumps(document, indent=1)
    if args.output:
        args.output.write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
