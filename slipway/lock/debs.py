"""From package names to the exact .debs of each set, and from libfabric's pin to its place in the archive."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from slipway.errors import MissingError, SlipwayError, UsageError, WrongArtifact
from slipway.lock.apt_state import AptState, Index, NoInstall, NotAnswered, Printed
from slipway.lock.archive import Archives, suites
from slipway.lock.deb_index import packages, source_file, source_version
from slipway.lock.model import Deb, Source
from slipway.pins.model import Libfabric, Selection

ALWAYS = ("apt", "debian-archive-keyring")
"""In every set beside the essential packages: apt has to work in a FROM, with Debian's keys."""


@dataclass(frozen=True)
class Resolved:
    """What an archive gave."""

    debs: tuple[Deb, ...]
    sources: tuple[Source, ...]


def resolve_debs(
    selection: Selection, choices: Sequence[Archives], keep: Sequence[Deb] = (), known: Sequence[Source] = ()
) -> Resolved:
    """The .debs of every set and the source tarballs, from the first of `choices` that answers as Debian.

    keep:  packages whose versions stay while an archive has them
    known: sources of the lock before: where the pin is the same they are taken over, without asking

    Raises MissingError when no archive answers, UsageError for a package that isn't there, WrongArtifact when the
    archive's tarball isn't the pinned one.
    """
    fabric = selection.libfabric
    wants_source = selection.fabric == "source"
    taken = tuple(source for source in known if source.file == fabric.file and source.sha256 == fabric.sha256)
    failures = []
    for archives in choices:
        with tempfile.TemporaryDirectory(prefix="slipway-apt-") as name:
            state = AptState(Path(name), selection.arch, archives)
            try:
                state.update(suites(selection.suite), (fabric.suite,) if wants_source and not taken else ())
            except NotAnswered as failure:
                failures.append(f"{archives.main}: {failure.text}")
                continue
            debs = _debs(state, selection, keep)
            sources = () if not wants_source else taken or (_source(state.indices(), fabric),)
            return Resolved(debs, sources)
    raise MissingError(
        "no Debian archive gives a signed index",
        where=f"suite {selection.suite}",
        why="\n".join(failures),
        remedy="see that `apt-get update` works here, or name an archive with --mirror debian=URL",
    )


def _debs(state: AptState, selection: Selection, keep: Sequence[Deb]) -> tuple[Deb, ...]:
    state.prefer((deb.name, deb.version) for deb in keep)
    printed: dict[str, Printed] = {}
    sets: dict[str, list[str]] = {}
    for purpose, names in selection.debs.items():
        for item in _closure(state, selection, names, bool(keep)):
            printed[item.path] = item
            sets.setdefault(item.path, []).append(purpose)
    debs: dict[str, Deb] = {}
    for index in state.indices():
        if index.of == "deb":
            for path, fields in packages(index.path.read_bytes(), printed):
                debs.setdefault(path, _deb(printed[path], fields, index, tuple(sorted(sets[path]))))
    lost = sorted(set(printed) - set(debs))
    if lost:
        raise SlipwayError("apt names packages that no index of its own lists", where=", ".join(lost))
    return tuple(sorted(debs.values(), key=lambda deb: (deb.name, deb.version, deb.arch)))


def _closure(state: AptState, selection: Selection, names: Sequence[str], preferring: bool) -> tuple[Printed, ...]:
    wanted = sorted({*names, *ALWAYS})
    try:
        return state.closure(wanted)
    except NoInstall as failure:
        if preferring:  # the old versions that are left don't fit together any more
            state.prefer(())
            return _closure(state, selection, names, False)
        raise UsageError(
            f"the Debian packages of {selection.label} can't be installed together",
            where="versions.toml, debs",
            why=failure.text,
            remedy=f"see that {selection.suite} has these packages and that their names are right",
        ) from failure


def _deb(item: Printed, fields: dict[str, str], index: Index, sets: tuple[str, ...]) -> Deb:
    if fields.get("sha256") != item.sha256 or fields.get("size") != str(item.size):
        raise SlipwayError("apt and its index disagree about a package", where=item.path)
    return Deb(
        name=fields["package"],
        version=fields["version"],
        file=PurePosixPath(item.path).name,
        size=item.size,
        sha256=item.sha256,
        suite=index.suite,
        component=index.component,
        path=item.path,
        arch=fields["architecture"],
        sets=sets,
    )


def _source(indices: Sequence[Index], fabric: Libfabric) -> Source:
    for index in indices:
        if index.of != "deb-src" or index.suite != fabric.suite:
            continue
        content = index.path.read_bytes()
        found = source_file(content, fabric.file)
        if found is None:
            raise WrongArtifact(
                f"{fabric.suite} has no {fabric.file} any more",
                where=f"components.libfabric.{fabric.version} in versions.toml",
                why=f"it offers libfabric {source_version(content, 'libfabric') or '(none)'}",
                remedy="pin the libfabric that the suite has, or another suite",
            )
        if found.sha256 != fabric.sha256:
            raise WrongArtifact(
                f"{fabric.file} of {fabric.suite} is not the pinned one",
                where=f"components.libfabric.{fabric.version} in versions.toml",
                why=f"pinned {fabric.sha256}, the signed index says {found.sha256}",
                remedy="find out why they differ before you change the pin",
            )
        return Source(
            name="libfabric",
            version=fabric.version,
            file=fabric.file,
            size=found.size,
            sha256=found.sha256,
            suite=index.suite,
            component=index.component,
            path=found.path,
        )
    raise SlipwayError(f"there is no source index of {fabric.suite}")
