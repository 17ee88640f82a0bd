"""Pushes that are disturbed, each in another way at a random place: does the registry always end up right?

Every push goes to a repository of its own of a real registry (Debian's docker-registry), through a proxy that lets one
thing go wrong: the client is killed at a random byte, a 5xx or 429 at a random request, a token that ends in the
middle, a connection that is reset, an answer that gets lost, a flipped byte, a lie. A push that fails is run once more
without a fault. After every run each tag is followed to its last blob, and what a rerun sent is held against what was
missing.

    python3 benchmarks/push_faults.py [--pushes 200] [--seed 1] [--layout DIR] [--output FILE]

Without --layout a small made-up image is pushed (about 3 MB, with SBOM and provenance). Needs docker-registry. Seconds
are wall clock; sizes are bytes. Exit code 1 when any push ended wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.push.content import Content, read_content  # noqa: E402
from slipway.push.tags import image_tags  # noqa: E402
from slipway.registry.client import Repository  # noqa: E402
from slipway.registry.reference import parse_reference  # noqa: E402
from slipway.sources.http import Http  # noqa: E402
from slipway.testing.faults import Fault, FaultyProxy, faulty  # noqa: E402
from slipway.testing.layouts import incomplete, layout, real_labels  # noqa: E402
from slipway.testing.registry import log_in, registry  # noqa: E402

KINDS = ("kill", "cut", "reset", "lost", "status", "token", "flip", "lies", "says", "slow")
STATUSES = (429, 500, 502, 503, 504, 408)
SIZES = (1, 1000, 40_000, 300_000, 900_000, 1_700_000)
REQUESTS = 40
"""About as many as a push of the made-up image takes: a fault hits any of them."""


@dataclass
class Outcome:
    """One disturbed push. runs: exit codes; resent: bytes of blobs that a rerun sent though they were there."""

    number: int
    kind: str
    at: int
    fired: bool = False
    runs: list[int] = field(default_factory=list)
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    resent: int = 0

    @property
    def right(self) -> bool:
        return self.runs[-1] == 0 and len(self.runs) <= 2 and not self.wrong and self.resent == 0


def disturbed(number: int, image: Content, port: int, tokens: int, environ: dict[str, str], seed: int) -> Outcome:
    """One push with one fault, and at most one rerun."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311
    kind = KINDS[number % len(KINDS)]
    total = sum(blob.size for blob in image.blobs)
    at = chance.randrange(total) if kind in ("kill", "cut", "flip") else chance.randrange(REQUESTS)
    outcome = Outcome(number, kind, at)
    target = tokens if kind == "token" else port
    started = time.monotonic()
    with faulty(target) as proxy:
        folder = f"n{number}"
        behind = Repository(parse_reference(f"127.0.0.1:{target}/{folder}/slipway"), Http(environ=environ), environ)
        outcome.runs.append(run(image, proxy, folder, environ, fault_of(kind, at, chance)))
        outcome.fired = proxy.fired or kind == "token"
        outcome.wrong += incomplete(behind)
        if outcome.runs[-1] != 0:
            missing = sum(blob.size for blob in image.blobs if behind.blob_size(blob.digest) != blob.size)
            proxy.fired, proxy.fault = True, None
            proxy.uploads.clear()
            outcome.runs.append(run(image, proxy, folder, environ, None))
            outcome.wrong += incomplete(behind)
            outcome.resent = max(sent_of(image, proxy) - missing, 0)
        outcome.wrong += ends(image, behind)
    outcome.seconds = time.monotonic() - started
    return outcome


def sent_of(image: Content, proxy: FaultyProxy) -> int:
    """Bytes of the image's own blobs among what passed the proxy: uploads of a length that only attachments have (the
    SBOMs are far longer than what is left out here) don't count."""
    sizes = Counter(blob.size for blob in image.blobs)
    return sum(size for size in proxy.uploads.values() if sizes[size])


def fault_of(kind: str, at: int, chance: random.Random) -> Fault | None:
    if kind == "token":
        return None
    return Fault("call" if kind == "kill" else kind, at, chance.choice(STATUSES))


def run(image: Content, proxy: FaultyProxy, folder: str, environ: dict[str, str], fault: Fault | None) -> int:
    """`build.py push` as a user runs it; its exit code, -9 where it was killed."""
    log_in(Path(environ["DOCKER_CONFIG"]), proxy.host, f"127.0.0.1:{proxy.target}")
    words = [sys.executable, str(ROOT / "build.py"), "push", str(image.layout.folder), "--registry"]
    with subprocess.Popen(
        [*words, f"{proxy.host}/{folder}"],
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        if fault is not None:
            proxy.fault = Fault(fault.kind, fault.at, fault.status, process.kill)
        _, said = process.communicate(timeout=300)
    if process.returncode not in (0, -9):
        sys.stderr.write(said.decode(errors="replace"))
    return process.returncode


def ends(image: Content, behind: Repository) -> list[str]:
    """What is not as it should be after all: both tags name this image."""
    tags = image_tags(image.labels, image.layout.architecture)
    found = {tag: behind.manifest_digest(tag) for tag in tags.all}
    return [f"{tag} is {digest}" for tag, digest in found.items() if digest != image.digest]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pushes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layout", type=Path)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    with place(args.layout) as (folder, image):
        environ = log_in(folder / "docker", "nowhere")
        with registry(folder / "plain") as port, registry(folder / "token", "token", token_seconds=1.5) as tokens:
            outcomes = []
            for number in range(args.pushes):
                outcomes.append(disturbed(number, image, port, tokens, environ, args.seed))
                print("" if outcomes[-1].right else "WRONG ", outcomes[-1], sep="", file=sys.stderr, flush=True)
    document = summary(outcomes, image, args.seed)
    text = json.dumps(document, indent=1)
    if args.output:
        args.output.write_text(text + "\n")
    print(json.dumps({key: value for key, value in document.items() if key != "pushes"}, indent=1))
    return 0 if document["right"] == len(outcomes) else 1


def summary(outcomes: list[Outcome], image: Content, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "image_bytes": sum(blob.size for blob in image.blobs),
        "right": sum(one.right for one in outcomes),
        "of": len(outcomes),
        "fault_struck": sum(one.fired for one in outcomes),
        "needed_a_rerun": sum(len(one.runs) > 1 for one in outcomes),
        "bytes_resent_needlessly": sum(one.resent for one in outcomes),
        "tags_on_incomplete_images": sum(bool(one.wrong) for one in outcomes),
        "by_kind": dict(Counter(one.kind for one in outcomes)),
        "seconds": round(sum(one.seconds for one in outcomes), 1),
        "pushes": [vars(one) for one in outcomes],
    }


@contextlib.contextmanager
def place(given: Path | None) -> Iterator[tuple[Path, Content]]:
    with tempfile.TemporaryDirectory(prefix="slipway-push-faults-") as name:
        folder = Path(name)
        if given is None:
            layout(folder / "image", SIZES, real_labels())
        yield folder, read_content(given or folder / "image")


if __name__ == "__main__":
    sys.exit(main())
