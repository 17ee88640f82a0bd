"""versions.toml from file to selections: parse, validate what hangs together, complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from slipway.errors import InvalidInput, Problem, UsageError
from slipway.pins import checks
from slipway.pins.model import Alias, Requirement, Selection
from slipway.pins.reader import nearest
from slipway.pins.schema import parse
from slipway.pins.written import AliasPin, File, Release, Suite, Variant


@dataclass(frozen=True)
class Pins:
    """A valid versions.toml. `select` completes one image's part of it."""

    path: str
    default_release: str
    default_variant: str
    default_arch: str
    selections: Mapping[tuple[str, str], Selection]
    """By release and variant; arch is the default one until `select` sets it."""
    registry: str = ""
    """Where `--push` pushes to when nothing else says so, "" for nowhere."""

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(sorted({release for release, _ in self.selections}))

    @property
    def arches(self) -> tuple[str, ...]:
        """All architectures that an image can be selected for, in Debian's words."""
        return checks.ARCHES

    def variants(self, release: str) -> tuple[str, ...]:
        return tuple(sorted(variant for name, variant in self.selections if name == release))

    def select(self, release: str | None = None, variant: str | None = None, arch: str | None = None) -> Selection:
        """What one image needs; None takes the file's default. A name that isn't pinned raises UsageError."""
        release = release or self.default_release
        variant = variant or self.default_variant
        arch = arch or self.default_arch
        self._known("release", release, self.releases)
        self._known(f"variant of release {release}", variant, self.variants(release))
        self._known("architecture", arch, checks.ARCHES)
        found = self.selections[release, variant]
        return Selection(**{**found.__dict__, "arch": arch})

    def _known(self, what: str, name: str, names: tuple[str, ...]) -> None:
        if name not in names:
            close = nearest(name, list(names))
            remedy = f"take one of {', '.join(names)}" + (f"; {close}" if close else "")
            raise UsageError(f"there is no {what} called {name!r}", where=self.path, remedy=remedy)


def load(path: Path | str) -> Pins:
    """Reads versions.toml. Raises InvalidInput with all its problems, each with its line."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"can't read the pins: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} can't be read", [Problem(str(path), 0, f"not UTF-8: {error.reason}")]) from error
    return loads(text, str(path))


def loads(text: str, path: str = "versions.toml") -> Pins:
    """The same from text; `path` is for messages only."""
    file = parse(text, path)
    _check_defaults(file)
    for release in file.releases.values():
        _check_release(file, release)
        for variant in release.variants.values():
            _check_variant(file, release, variant)
    file.document.finish()
    selections = {
        (release.name, variant.name): _complete(file, release, variant)
        for release in file.releases.values()
        for variant in release.variants.values()
    }
    return Pins(
        path, file.defaults["release"], file.defaults["variant"], file.defaults["arch"], selections, file.registry
    )


def _check_defaults(file: File) -> None:
    release, variant = file.defaults.get("release"), file.defaults.get("variant")
    if release and file.releases and release not in file.releases:
        _undefined(file, ("defaults", "release"), "release", release, file.releases)
    elif release in file.releases and variant:
        variants = file.releases[release].variants
        if variant not in variants:
            _undefined(file, ("defaults", "variant"), f"variant of release {release}", variant, variants)


def _check_release(file: File, release: Release) -> None:
    at = ("releases", release.name)
    suite = file.suites.get(release.suite)
    if release.suite and suite is None:
        _undefined(file, (*at, "suite"), "suite", release.suite, file.suites)
    elif suite is not None and release.python and suite.python and suite.python != release.python:
        what = f"release {release.name} wants Python {release.python}, but {suite.name} has Python {suite.python}"
        file.document.report((*at, "python"), what, "move one of them: wheels are chosen for the suite's python3")
    if release.libfabric and release.libfabric not in file.libfabrics:
        _undefined(file, (*at, "libfabric"), "libfabric", release.libfabric, file.libfabrics)
    if release.installer and release.installer not in file.installers:
        _undefined(file, (*at, "efa-installer"), "EFA installer", release.installer, file.installers)


def _check_variant(file: File, release: Release, variant: Variant) -> None:
    at = ("releases", release.name, "variants", variant.name)
    own = {requirement.name for requirement in release.wheels}
    versions = {requirement.name: requirement.version for requirement in (*release.wheels, *variant.wheels)}
    wanted = set(versions)
    if variant.fabric == "installer" and not release.installer:
        what = f"fabric is 'installer', but release {release.name} names no efa-installer"
        file.document.report((*at, "fabric"), what)
    suite = file.suites.get(release.suite)
    if variant.fabric == "installer" and suite is not None and not suite.efa_system:
        what = f"fabric is 'installer', but suite {suite.name} names no efa-system, the folder of its packages in there"
        file.document.report((*at, "fabric"), what)
    if "pytorch" in variant.wheel_sources and not file.sources.pytorch:
        file.document.report((*at, "wheel_sources"), "wheel_sources names 'pytorch', but [sources] has no pytorch")
    for requirement in variant.wheels:
        if requirement.name in own:
            what = f"{requirement.name} is pinned by release {release.name} and by its variant {variant.name}"
            file.document.report((*at, "wheels"), what, "leave it in one place")
    for alias in variant.aliases:
        if alias.of not in wanted:
            what = f"alias {alias.name} stands for {alias.of!r}, which isn't among the wheels"
            file.document.report((*at, "alias", alias.name, "of"), what, nearest(alias.of, sorted(wanted)))
        elif checks.version(versions[alias.of]):
            what = f"alias {alias.name} takes its version from {alias.of}, which must be pinned to an exact one"
            file.document.report((*at, "alias", alias.name, "of"), what)
        if alias.name in wanted:
            what = f"{alias.name} is an alias and among the wheels too"
            file.document.report((*at, "alias", alias.name), what, "drop one of them")
    for name in variant.exclude:
        if name in wanted or name in {alias.name for alias in variant.aliases}:
            what = f"{name} is excluded and wanted at once"
            file.document.report((*at, "exclude", name), what, "drop one of them")


def _undefined(file: File, at: tuple[str, ...], kind: str, name: str, defined: Mapping[str, object]) -> None:
    names = list(defined)
    remedy = nearest(name, names) or (f"there are {', '.join(sorted(names))}" if names else None)
    file.document.report(at, f"there is no {kind} called {name!r}", remedy)


def _complete(file: File, release: Release, variant: Variant) -> Selection:
    suite = file.suites[release.suite]
    wheels = {requirement.name: requirement for requirement in (*release.wheels, *variant.wheels)}
    return Selection(
        release=release.name,
        variant=variant.name,
        arch=file.defaults["arch"],
        python=release.python,
        suite=suite.name,
        glibc=suite.glibc,
        fabric=variant.fabric,
        wheels=tuple(wheels[name] for name in sorted(wheels)),
        libfabric=file.libfabrics[release.libfabric],
        sources=file.sources,
        installer=file.installers.get(release.installer),
        efa_system=suite.efa_system,
        wheel_sources=variant.wheel_sources,
        aliases=tuple(sorted((_alias(pin, wheels[pin.of]) for pin in variant.aliases), key=lambda alias: alias.name)),
        exclude=variant.exclude,
        debs=_debs(suite, variant),
        budget=variant.budget,
        setuid={**suite.setuid, **variant.setuid},
        gates={
            name: {**file.gates.get(name, {}), **variant.gates.get(name, {})}
            for name in {**file.gates, **variant.gates}
        },
        excuses=variant.excuses,
        contested=variant.contested,
    )


def _debs(suite: Suite, variant: Variant) -> dict[str, tuple[str, ...]]:
    """The sets of packages, filled in. Where the fabric comes ready-made nothing is compiled: no "build"."""
    sets = {name: {*suite.debs[name], *variant.debs.get(name, ())} for name in suite.debs}
    sets["image"] |= set(suite.fabric.get(variant.fabric, ()))
    if variant.fabric == "installer":
        sets.pop("build", None)
    return {name: tuple(sorted(names)) for name, names in sets.items()}


def _alias(pin: AliasPin, of: Requirement) -> Alias:
    return Alias(pin.name, f"{Version(of.version).public}+{pin.local}", pin.of, pin.reason, pin.extras)
