"""The form of versions.toml: which tables and keys there are, and what each may hold.

Everything is read before anything is raised, so that all mistakes are shown at once. What a table means stands at
its function; the file itself has comments too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from packaging.requirements import Requirement as Pep508

from slipway.gates.names import NAMES as GATES
from slipway.pins import checks
from slipway.pins.model import Budget, Contested, Installer, Libfabric, Requirement, Sources
from slipway.pins.reader import Table, nearest, read_toml
from slipway.pins.written import AliasPin, File, Release, Suite, Variant

FORMAT = 1
Check = Callable[[str], str | None]


def parse(text: str, path: str) -> File:
    """Reads versions.toml. Problems are gathered in the document; only text that isn't TOML raises here."""
    document, top = read_toml(text, path)
    found = top.integer("format")
    if "format" in top.content and found != FORMAT:
        top.report("format", f"this driver reads format {FORMAT}, not {found}")
    defaults = _defaults(top.table("defaults", required=True))
    sources = _sources(top.table("sources"))
    libfabrics, installers = _components(top.table("components", required=True))
    suites = {name: _suite(name, table) for name, table in top.tables("suites", required=True)}
    releases = {name: _release(name, table) for name, table in top.tables("releases", required=True)}
    gates = _gates(top)
    registry = _push(top.table("push"))
    top.done()
    return File(document, defaults, sources, suites, libfabrics, installers, releases, gates, registry)


def checked(table: Table, key: str, check: Check, default: str | None = None) -> str:
    """A string that passes a check; "" is only let through as a default."""
    value = table.string(key, default)
    if value and value != default:
        wrong = check(value)
        if wrong:
            table.report(key, wrong)
    return value


def one_of(table: Table, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
    def check(value: str) -> str | None:
        if value in choices:
            return None
        close = nearest(value, list(choices))
        return f"must be one of {', '.join(choices)}, not {value!r}" + (f"; {close}" if close else "")

    return checked(table, key, check, default)


def _defaults(table: Table | None) -> dict[str, str]:
    if table is None:
        return {}
    values = {key: table.string(key) for key in ("release", "variant")}
    values["arch"] = one_of(table, "arch", checks.ARCHES)
    table.done()
    return values


def _sources(table: Table | None) -> Sources:
    if table is None:
        return Sources()

    def url_or(word: str) -> Check:
        return lambda value: None if value == word else checks.url(value)

    sources = Sources(
        wheels=checked(table, "wheels", url_or("pip"), "pip"),
        pytorch=checked(table, "pytorch", checks.url, ""),
        debian=checked(table, "debian", url_or("apt"), "apt"),
        snapshot=checked(table, "snapshot", checks.url, ""),
        efa=checked(table, "efa", checks.url, ""),
    )
    table.done()
    return sources


def _push(table: Table | None) -> str:
    """Where `--push` pushes to when neither option nor environment says so: HOST[/FOLDER]."""
    if table is None:
        return ""
    registry = table.string("registry", "")
    table.done()
    return registry


def _components(table: Table | None) -> tuple[dict[str, Libfabric], dict[str, Installer]]:
    if table is None:
        return {}, {}
    libfabrics = {}
    for version, pin in table.tables("libfabric", required=True):
        libfabrics[version] = Libfabric(
            version=_version_key(pin, version),
            suite=checked(pin, "suite", checks.word),
            file=checked(pin, "file", checks.file_name),
            sha256=checked(pin, "sha256", checks.sha256),
        )
        pin.done()
    installers = {}
    for version, pin in table.tables("efa-installer"):
        installers[version] = Installer(
            version=_version_key(pin, version),
            file=checked(pin, "file", checks.file_name),
            sha256=checked(pin, "sha256", checks.sha256),
            size=pin.integer("size", 0),
            stand_in=pin.string("stand-in", ""),
        )
        pin.done()
    table.done()
    return libfabrics, installers


def _version_key(table: Table, version: str) -> str:
    wrong = checks.version(version)
    if wrong:
        table.document.report(table.path, wrong)
    return version


def _suite(name: str, table: Table) -> Suite:
    _key(table, name, checks.word)
    suite = Suite(
        name=name,
        python=checked(table, "python", checks.dotted_pair),
        glibc=checked(table, "glibc", checks.dotted_pair),
        debs=_debs(table.table("debs", required=True), required=True),
        fabric=_fabric_debs(table.table("fabric")),
        efa_system=checked(table, "efa-system", checks.file_name, ""),
        setuid=_keyed(table, "setuid", checks.image_path),
    )
    table.done()
    return suite


def _fabric_debs(table: Table | None) -> dict[str, tuple[str, ...]]:
    """Packages that the image's set has besides, by where its fabric comes from."""
    if table is None:
        return {}
    found = {key: _package_names(table, key, ()) for key in checks.FABRICS}
    table.done()
    return found


def _release(name: str, table: Table) -> Release:
    _key(table, name, checks.word)
    release = Release(
        name=name,
        python=checked(table, "python", checks.dotted_pair),
        suite=table.string("suite"),
        libfabric=table.string("libfabric"),
        installer=table.string("efa-installer", ""),
        wheels=_wheels(table, required=True),
        variants={key: _variant(key, variant) for key, variant in table.tables("variants", required=True)},
    )
    table.done()
    return release


def _variant(name: str, table: Table) -> Variant:
    _key(table, name, checks.word)
    budget = table.table("budget")
    variant = Variant(
        name=name,
        fabric=one_of(table, "fabric", checks.FABRICS),
        wheel_sources=_wheel_sources(table),
        wheels=_wheels(table, required=False),
        aliases=tuple(_aliases(table)),
        exclude=_keyed(table, "exclude", checks.distribution),
        debs=_debs(table.table("debs"), required=False),
        budget=Budget() if budget is None else Budget(compressed_mb=budget.integer("compressed_mb", least=1)),
        setuid=_keyed(table, "setuid", checks.image_path),
        excuses=_keyed(table, "excuses", checks.sha256),
        contested=dict(_contested(table)),
        gates=_gates(table),
    )
    if budget is not None:
        budget.done()
    table.done()
    return variant


def _key(table: Table, name: str, check: Check) -> None:
    wrong = check(name)
    if wrong:
        table.document.report(table.path, wrong)


def _keyed(table: Table, key: str, check: Check) -> dict[str, str]:
    """A table of reasons whose keys must pass a check."""
    reasons = table.texts(key)
    for name in reasons:
        wrong = check(name)
        if wrong:
            table.document.report((*table.at(key), name), f"{table.name(key)}: {wrong}")
    return reasons


def _gates(table: Table) -> dict[str, dict[str, str]]:
    """What gates may find: gate → pattern of a finding's subject → reason."""
    inner = table.table("gates")
    if inner is None:
        return {}
    excuses = {name: inner.texts(name) for name in GATES if name in inner.content}
    inner.done()
    return excuses


def _wheel_sources(table: Table) -> tuple[str, ...]:
    names = table.strings("wheel_sources", ("wheels",))
    for index, name in enumerate(names):
        if name not in checks.WHEEL_SOURCES:
            what = f"{table.name('wheel_sources')}: {name!r} is none of {', '.join(checks.WHEEL_SOURCES)}"
            table.document.report((*table.at("wheel_sources"), index), what, nearest(name, list(checks.WHEEL_SOURCES)))
    return names


def _wheels(table: Table, *, required: bool) -> tuple[Requirement, ...]:
    inner = table.table("wheels", required=required)
    if inner is None:
        return ()
    found: dict[str, Requirement] = {}
    for key in inner.content:
        version = checked(inner, key, checks.wheel_version)
        wrong = checks.requirement(key)
        if wrong:
            inner.document.report(inner.at(key), f"{inner.title}: {wrong}")
            continue
        parsed = Pep508(key)
        if parsed.name in found:
            inner.document.report(inner.at(key), f"{inner.title}: {parsed.name!r} stands in it twice")
        line = inner.document.line(inner.at(key))
        found[parsed.name] = Requirement(parsed.name, version or "*", tuple(sorted(parsed.extras)), line)
    return tuple(found[name] for name in sorted(found))


def _aliases(table: Table) -> Iterable[AliasPin]:
    for name, pin in table.tables("alias"):
        _key(pin, name, checks.distribution)
        yield AliasPin(
            name=name,
            local=checked(pin, "local", checks.local_version),
            of=checked(pin, "of", checks.distribution),
            reason=pin.string("reason"),
            extras=tuple(sorted(pin.strings("extras", ()))),
        )
        pin.done()


def _contested(table: Table) -> Iterable[tuple[str, Contested]]:
    for path, pin in table.tables("contested"):
        _key(pin, path, checks.image_path)
        yield path, Contested(path, checked(pin, "owner", checks.distribution), pin.string("reason"))
        pin.done()


def _debs(table: Table | None, *, required: bool) -> dict[str, tuple[str, ...]]:
    if table is None:
        return {}
    sets = {}
    for key in checks.DEB_SETS:
        sets[key] = _package_names(table, key, None if required else ())
    table.done()
    return sets


def _package_names(table: Table, key: str, default: tuple[str, ...] | None) -> tuple[str, ...]:
    names = table.strings(key, default)
    for index, name in enumerate(names):
        wrong = checks.deb(name)
        if wrong:
            table.document.report((*table.at(key), index), f"{table.name(key)}: {wrong}")
    return names
