"""How fast `build.py fetch` fills an empty store, against one curl that downloads the same files from the same server.

    python3 benchmarks/fetch.py [--variant cpu] [--rounds 3] [--json FILE]

A server of this machine hands out every file of the lock (from the store, which has to be filled). curl writes the
files to disk one after the other and checks nothing; fetch hashes them all. Both in turn, `--rounds` times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway import lock as locks  # noqa: E402
from slipway.lock import file  # noqa: E402
from slipway.lock.model import Lock, PoolFile  # noqa: E402
from slipway.store import Store  # noqa: E402


class Handler(BaseHTTPRequestHandler):
    """GET of known paths, by sendfile(2), so that the server is not what is measured."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else one connection waits 40 ms for an acknowledgement after each file
    files: dict[str, Path]

    def do_GET(self) -> None:
        path = self.files.get(unquote(self.path))
        if path is None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with path.open("rb") as source:
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            self.wfile.flush()
            self.connection.sendfile(source)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextlib.contextmanager
def serving(files: dict[str, Path]) -> Iterator[str]:
    handler = type("Files", (Handler,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()


def paths(lock: Lock, store: Store) -> dict[str, Path]:
    """URL path → file in the store."""
    found = {}
    for artifact in lock.downloads:
        name = f"/debian/{artifact.path}" if isinstance(artifact, PoolFile) else f"/wheels/{artifact.file}"
        found[name] = store.path(artifact.sha256)
    return found


def curl(url: str, files: dict[str, Path], folder: Path) -> float:
    config = "".join(f'url = "{url}{quote(path)}"\noutput = "{folder}/{number}"\n' for number, path in enumerate(files))
    started = time.monotonic()
    subprocess.run(["curl", "--silent", "--fail", "--config", "-"], input=config.encode(), check=True)
    return time.monotonic() - started


def fetch(url: str, lock: Path, folder: Path) -> float:
    command = [sys.executable, str(ROOT / "build.py"), "fetch", "--lock", str(lock), "--store", str(folder), "--json"]
    mirrors = [f"--mirror=wheels={url}/wheels", f"--mirror=debian={url}/debian"]
    started = time.monotonic()
    done = subprocess.run([*command, *mirrors], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - started
    document: dict[str, Any] = json.loads(done.stdout)
    if document["fetched"] != document["wanted"]:
        raise SystemExit(f"fetched {document['fetched']} of {document['wanted']}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="2.60")
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    path = locks.path(args.release, args.variant, "amd64")
    lock = file.read(path)
    store = Store(Path(os.environ.get("SLIPWAY_STORE") or Path.home() / ".cache" / "slipway" / "store"))
    if store.missing(lock.downloads):
        raise SystemExit("fill the store first: python3 build.py fetch")
    files = paths(lock, store)
    size = sum(artifact.size for artifact in lock.downloads)
    rounds = []
    with serving(files) as url:
        for _ in range(args.rounds):
            took = {}
            for name in ("curl", "fetch"):
                with tempfile.TemporaryDirectory(prefix="fetch-", dir=store.root.parent) as folder:
                    took[name] = curl(url, files, Path(folder)) if name == "curl" else fetch(url, path, Path(folder))
            rounds.append(took)
            print(f"{took['curl']:.1f} s curl, {took['fetch']:.1f} s fetch", flush=True)
    middle = {name: statistics.median(took[name] for took in rounds) for name in ("curl", "fetch")}
    ratio = middle["curl"] / middle["fetch"]
    rates = {name: size / seconds / 1e6 for name, seconds in middle.items()}
    told = ", ".join(f"{name} {rate:.0f} MB/s" for name, rate in rates.items())
    print(f"{len(files)} files, {size / 1e6:.0f} MB: {told}, {ratio:.0%}")
    if args.json:
        args.json.write_text(
            json.dumps(
                {
                    "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "load": os.getloadavg()[0]},
                    "lock": path.stem,
                    "files": len(files),
                    "bytes": size,
                    "rounds": rounds,
                    "bytes_per_second": {name: round(size / seconds) for name, seconds in middle.items()},
                    "ratio": round(ratio, 3),
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
