"""Seconds, CPU seconds, bytes and peak memory of making all wheel layers of an image from a warm store.

    python benchmarks/wheel_layers.py [--variant cpu] [--release 2.60] [--jobs 2] [--repeat 3] [--bytecode] [--json]

Each run starts with an empty layer cache. The wheels are read once before, so that the disk is not measured. Run it on
an idle machine; the load average at the start is printed beside the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway import lock as locks  # noqa: E402
from slipway import pins  # noqa: E402
from slipway.layers.bytecode import NO_BYTECODE, Bytecode, read_list  # noqa: E402
from slipway.layers.cache import LayerCache  # noqa: E402
from slipway.layers.image_python import python_debs  # noqa: E402
from slipway.layers.pool import WorkerPool  # noqa: E402
from slipway.layers.wheels import Options, build_groups, plan_wheels  # noqa: E402
from slipway.lock import file as lock_file  # noqa: E402
from slipway.lock.model import Lock  # noqa: E402
from slipway.pins import Selection  # noqa: E402
from slipway.store.store import Store  # noqa: E402

DEFAULT_STORE = Path(os.environ.get("SLIPWAY_STORE", Path.home() / ".cache/slipway/store"))


@dataclass(frozen=True)
class Run:
    """One build of all layers. Seconds, bytes."""

    plan_cold_s: float
    plan_warm_s: float
    seconds: float
    cpu_s: float
    peak_rss: int
    wheels: int
    wheel_bytes: int
    layers: int
    tar_bytes: int
    blob_bytes: int


class Memory:
    """Samples the resident memory of this process and its descendants, summed, ten times a second."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.peak = max(self.peak, sum(_resident(pid) for pid in _family(os.getpid())))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _family(int(child))


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def measure(lock: Lock, options: Options, store: Store, jobs: int, show: bool) -> Run:
    """One run with an empty cache beside the store, so that blobs land on the same file system."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=store.root))
    try:
        cache = LayerCache(folder)
        start = time.perf_counter()
        plan_wheels(lock.wheels, options, store, cache)
        cold = time.perf_counter()
        plan = plan_wheels(lock.wheels, options, store, cache)
        warm = time.perf_counter()
        before = _cpu()
        begun = time.perf_counter()
        with Memory() as memory, WorkerPool(jobs) as pool:
            layers = build_groups(plan.groups, options, store, cache, pool)
            took = time.perf_counter() - begun
        if show:
            print(f"{'layer':28s} {'wheels':>6s} {'wheels MB':>10s} {'tar MB':>8s} {'layer MB':>9s}")
            for group, layer in zip(plan.groups, layers, strict=True):
                print(
                    f"{group.name:28s} {len(group.group.wheels):6d} {group.group.size / 1e6:10.1f} "
                    f"{layer.blob.tar_size / 1e6:8.1f} {layer.blob.size / 1e6:9.1f}  {layer.blob.digest[7:19]}"
                )
        return Run(
            plan_cold_s=cold - start,
            plan_warm_s=warm - cold,
            seconds=took,
            cpu_s=_cpu() - before,
            peak_rss=memory.peak,
            wheels=len(lock.wheels),
            wheel_bytes=sum(wheel.size for wheel in lock.wheels),
            layers=len(layers),
            tar_bytes=sum(layer.blob.tar_size for layer in layers),
            blob_bytes=sum(layer.blob.size for layer in layers),
        )
    finally:
        shutil.rmtree(folder)


def _cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def options_of(selection: Selection, lock: Lock, with_bytecode: bool) -> Options:
    """What versions.toml says about these wheels, as a build takes it."""
    bytecode = NO_BYTECODE
    if with_bytecode:
        modules = read_list(ROOT / "docker" / "bytecode" / f"{selection.release}-{selection.variant}.txt")
        bytecode = Bytecode(python_debs(lock.debs_for("image"), selection.python), modules)
    return Options(
        excuses=selection.excuses,
        contested=selection.contested,
        pinned=frozenset(requirement.name for requirement in selection.wheels),
        bytecode=bytecode,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release")
    parser.add_argument("--variant")
    parser.add_argument("--arch")
    parser.add_argument("--store", type=Path, default=DEFAULT_STORE)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--bytecode", action="store_true", help="with the byte-code of the committed list")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    read = pins.load(ROOT / "versions.toml")
    selection = read.select(args.release, args.variant, args.arch)
    lock = lock_file.read(locks.path(selection.release, selection.variant, selection.arch))
    store = Store(args.store)
    if missing := store.missing(lock.wheels):
        print(f"{len(missing)} wheels are not in {store.root}, e.g. {missing[0].label}", file=sys.stderr)
        return 3
    for wheel in lock.wheels:
        store.checked(wheel)
    options = options_of(selection, lock, args.bytecode)
    runs = []
    for number in range(args.repeat):
        load = os.getloadavg()[0]
        run = measure(lock, options, store, args.jobs, show=number == 0 and not args.json)
        runs.append(asdict(run))
        if not args.json:
            print(
                f"\n{selection.label}: {run.wheels} wheels, {run.wheel_bytes / 1e6:.0f} MB -> {run.layers} layers, "
                f"{run.tar_bytes / 1e6:.0f} MB of tar, {run.blob_bytes / 1e6:.0f} MB compressed\n"
                f"{args.jobs} jobs: {run.seconds:.1f} s, {run.cpu_s:.1f} CPU-s, peak {run.peak_rss / 1e6:.0f} MB in "
                f"memory; plan {run.plan_cold_s:.2f} s first, {run.plan_warm_s:.2f} s then; load before {load:.2f}"
            )
    if args.json:
        print(json.dumps(runs, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
