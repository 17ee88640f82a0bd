"""The ABI gate's knowledge before anything is made: the files that a lock names, as the image would have them.

What is not in the store can't be looked into. What it could still bring is then no finding; two files that are known
and don't fit stay one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.ahead import contents, fabric
from slipway.ahead.contents import Contents
from slipway.debian.bootstrap import merged_links
from slipway.errors import InvalidInput, Problem
from slipway.gates import abi, copies
from slipway.gates.model import Excused, Finding, GateSettings
from slipway.gates.run import check_image
from slipway.gates.settings import settings_of
from slipway.image.definition import RUNTIME
from slipway.inspect.image import Image
from slipway.inspect.index import LayerIndex
from slipway.inspect.layout import LayerRef, Layout
from slipway.inspect.loader import default_folders
from slipway.layers.pool import WorkerPool
from slipway.lock.model import Artifact, Lock
from slipway.pins.model import Selection
from slipway.progress import Progress
from slipway.store import Store
from slipway.wheel.paths import Venv


@dataclass(frozen=True)
class Foreseen:
    """findings: what would stop the image, excused: what the pins allow, unread: what was not in the store."""

    image: Image
    findings: tuple[Finding, ...]
    excused: tuple[Excused, ...]
    unread: tuple[Artifact, ...]


class _Part:
    """The ABI gate over an image of which not all files are known."""

    NAME = abi.NAME
    PROVES = abi.PROVES

    @staticmethod
    def check(image: Image, settings: GateSettings) -> Iterable[Finding]:
        del settings
        return abi.check_part(image)


def foresee(selection: Selection, lock: Lock, store: Store, cache: Path, jobs: int, progress: Progress) -> Foreseen:
    """Look into all files of the lock that are in the store. Raises RefusedWheel or WrongArtifact for damaged ones."""
    debs, wheels = lock.debs_for("image"), tuple(wheel for wheel in lock.wheels if not wheel.made)
    found, unread = _read((*debs, *wheels), selection, store, cache, jobs, progress)
    libfabric = promised(selection, lock, store)
    if libfabric is None:
        unread += list(lock.installers or lock.sources)
    base = Contents(tuple(contents.link(name, f"usr/{name}", "") for name in merged_links(selection.arch)), {})
    parts = [base, *found, *([libfabric] if libfabric else [])]
    image = _image(selection, parts)
    report = check_image(image, settings_of(selection), (_Part if unread else abi, copies))
    errors = [finding for _, finding in report.findings("error")]
    excused = [each for result in report.results for each in result.excused]
    return Foreseen(image, tuple(errors), tuple(excused), tuple(unread))


def refuse(selection: Selection, foreseen: Foreseen) -> None:
    """Raise InvalidInput (exit 2) with all findings, each at the pin that it speaks of."""
    if foreseen.findings:
        lines = {pin.name: pin.line for pin in selection.wheels}
        problems = [_problem(finding, foreseen.image, lines) for finding in foreseen.findings]
        raise InvalidInput(f"the pins of {selection.label} don't fit together: an image would be refused", problems)


def promised(selection: Selection, lock: Lock, store: Store) -> Contents | None:
    """What the fabric layer will bring, None while its tarball is not in the store."""
    artifacts = lock.installers if selection.fabric == "installer" else lock.sources
    if not artifacts or not store.has(artifacts[0]):
        return None
    path = store.path(artifacts[0].sha256)
    if selection.fabric == "installer":
        return fabric.from_installer(lock.installers[0], path, selection)
    return fabric.from_source(lock.sources[0], path, selection)


def venv_of(selection: Selection) -> Venv:
    return Venv(python=selection.python, base=f"/usr/bin/python{selection.python}")


def _read(
    artifacts: Sequence[Artifact], selection: Selection, store: Store, cache: Path, jobs: int, progress: Progress
) -> tuple[list[Contents], list[Artifact]]:
    venv = venv_of(selection)
    found = {artifact.sha256: contents.kept(artifact, venv, cache) for artifact in artifacts}
    new = [artifact for artifact in artifacts if found[artifact.sha256] is None and store.has(artifact)]
    if new:
        with (
            progress.step(f"{selection.label}: read files", sum(each.size for each in new), "bytes") as step,
            WorkerPool(min(jobs, len(new))) as pool,
        ):
            futures = {
                artifact.sha256: pool.submit(
                    contents.read,
                    artifact,
                    store.path(artifact.sha256),
                    venv,
                    cache,
                    selection.excuses.get(artifact.sha256),
                    size=artifact.size,
                    report=step.advance,
                )
                for artifact in new
            }
            found.update({sha256: future.result() for sha256, future in futures.items()})
            step.note(f"{len(new)} wheels and packages")
    return (
        [each for each in found.values() if each is not None],
        [artifact for artifact in artifacts if found[artifact.sha256] is None],
    )


def _image(selection: Selection, parts: Sequence[Contents]) -> Image:
    """As if it were read back from layers, one for each part."""
    env = [f"{name}={value}" for name, value in RUNTIME.env.items()]
    config = {"architecture": selection.arch, "config": {"Env": env}}
    refs = tuple(LayerRef(number, "lock", "", 0, "", "", Path()) for number in range(len(parts)))
    indexes = tuple(LayerIndex("", 0, part.members, (), part.texts) for part in parts)
    image = Image(Layout(Path(), "", {}, config, refs, 0), indexes)
    image.loader.cache = _ldcache(image)
    return image


def _ldcache(image: Image) -> dict[str, str]:
    """Name → path, as ldconfig(8) would find them: the configured folders in order, then the system's own."""
    tree = image.tree
    folders: dict[str, int] = {}
    for folder in (*image.loader.configured, *default_folders(image.layout.architecture)):
        real = tree.resolve(folder)
        if real:
            folders.setdefault(real, len(folders))
    ranked: dict[str, tuple[int, str]] = {}
    for node in tree.files():
        facts, rank = node.member.elf, folders.get(node.path.rpartition("/")[0])
        if facts and facts.soname and rank is not None:
            known = ranked.get(facts.soname)
            ranked[facts.soname] = min(known, (rank, node.path)) if known else (rank, node.path)
    return {name: f"/{path}" for name, (_, path) in ranked.items()}


def _problem(finding: Finding, image: Image, lines: Mapping[str, int]) -> Problem:
    path = finding.subject.partition(" needs ")[0]
    node = image.tree.nodes.get(path)
    kind, _, rest = (image.owner(node) if node else "").partition(" ")
    line = lines.get(rest.partition(" ")[0], 0) if kind == "wheel" else 0
    return Problem("versions.toml", line, f"/{path}: {finding.what}" if node else finding.what, finding.remedy)


def fits(selection: Selection, lock: Lock, store: Store, cache: Path) -> str:
    """Whether the wheels' libfabric versions are there, for the table of what can be had: in a few words."""
    venv = venv_of(selection)
    wanted: set[tuple[str, str]] = set()
    for wheel in lock.wheels:
        found = None if wheel.made else contents.kept(wheel, venv, cache)
        if found is None and not wheel.made:
            return "not looked at"
        wanted |= set(_asked(found))
    libfabric = promised(selection, lock, store)
    if libfabric is None:
        return "not looked at"
    lacking = sorted(version for soname, version in wanted if version not in fabric.versions(libfabric.members, soname))
    return f"no: {', '.join(lacking)} is missing" if lacking else "yes"


def _asked(found: Contents | None) -> Iterator[tuple[str, str]]:
    """(library, version) of every reference to libfabric."""
    for member in found.members if found else ():
        for library, versions in member.elf.needs if member.elf else ():
            if library.startswith("libfabric.so."):
                yield from ((library, version) for version in versions)
