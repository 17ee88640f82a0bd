"""Which sources are asked on this machine, and in which order: what pip and apt are configured with, overridden by
`--mirror`, backed by the defaults of versions.toml. pip and apt are asked only when something has to be fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slipway.host import apt as host_apt
from slipway.host.packages import Tool
from slipway.lock.model import Artifact, EfaInstaller, PoolFile, Wheel
from slipway.pins.model import Sources
from slipway.sources import apt, pip
from slipway.sources.address import local_path
from slipway.sources.debian import DebianArchives
from slipway.sources.efa import EfaFolder
from slipway.sources.http import Http
from slipway.sources.mirrors import Mirrors
from slipway.sources.origin import Origin
from slipway.sources.settings import HttpSettings
from slipway.sources.snapshot import Snapshot
from slipway.sources.wheels import LinkPage, WheelFolder, WheelIndex, WheelServer

MakeHttp = Callable[[HttpSettings], Http]

DEBIAN_DEFAULTS = Tool(
    str(apt.TEMPLATES / "Debian.info"),
    "python-apt-common",
    "apt here knows no Debian archive; this package says where Debian's is. Or name one: --mirror debian=URL",
)


def choose(artifacts: Iterable[Artifact], mirrors: Mirrors, defaults: Sources, make_http: MakeHttp) -> list[Origin]:
    """The mirrors and snapshot archives for these artifacts, in the order in which to try them.

    Raises MissingError where no Debian archive is known.
    """
    wanted = list(artifacts)
    origins: list[Origin] = []
    if any(isinstance(artifact, Wheel) for artifact in wanted):
        origins += wheel_origins(mirrors, defaults, make_http)
    pool = [artifact for artifact in wanted if isinstance(artifact, PoolFile)]
    if pool:
        settings = apt.ask_config()
        archives = debian_archives(pool, mirrors, defaults)
        origins.append(DebianArchives(archives, make_http(settings)))
        snapshots = mirrors.snapshot or ((defaults.snapshot,) if defaults.snapshot else ())
        origins += [Snapshot(url, make_http(settings)) for url in snapshots]
    if any(isinstance(artifact, EfaInstaller) for artifact in wanted):
        http = make_http(HttpSettings())
        origins += [EfaFolder(url, http) for url in mirrors.efa or ((defaults.efa,) if defaults.efa else ())]
    return origins


def wheel_origins(mirrors: Mirrors, defaults: Sources, make_http: MakeHttp) -> list[Origin]:
    """Where wheels come from. Sources on this machine come before those that take a network."""
    config = pip.ask(default=not mirrors.wheels)
    http = make_http(config.http)
    if mirrors.wheels:
        origins = [WheelFolder(path) if (path := local_path(url)) else WheelServer(url, http) for url in mirrors.wheels]
        return [*origins, *(WheelIndex(url, http) for url in mirrors.pytorch)]
    index = config.index
    if config.index_is_default and defaults.wheels not in ("", "pip"):
        index = defaults.wheels
    found: list[Origin] = []
    for link in config.find_links:
        found.append(WheelFolder(path) if (path := local_path(link)) else LinkPage(link, http))
    for url in (index, *config.extra_indexes):
        if url:
            found.append(WheelFolder(path) if (path := local_path(url)) else WheelIndex(url, http))
    found.sort(key=lambda origin: not isinstance(origin, WheelFolder))
    pytorch = mirrors.pytorch or ((defaults.pytorch,) if defaults.pytorch and index else ())
    return [*found, *(WheelIndex(url, http, local_versions_only=True) for url in pytorch)]


def debian_archives(pool: Iterable[PoolFile], mirrors: Mirrors, defaults: Sources) -> list[apt.Archive]:
    """The archives to ask for .debs: named by hand, else apt's, else the defaults of versions.toml or of Debian."""
    suites = dict.fromkeys(artifact.suite.partition("-")[0] for artifact in pool)
    security = tuple(f"{suite}-security" for suite in suites)
    secure = [apt.Archive(_root(url), security, ("main",)) for url in mirrors.debian_security]
    if mirrors.debian or secure:
        return [*(apt.Archive(_root(url)) for url in mirrors.debian), *secure]
    if archives := apt.debian_archives(apt.configured()):
        return archives
    if defaults.debian not in ("", "apt"):
        return [apt.Archive(_root(defaults.debian))]
    host_apt.ensure([DEBIAN_DEFAULTS])
    return apt.debian_archives(archive for suite in suites for archive in apt.template_archives(suite))


def _root(url: str) -> str:
    path = local_path(url)
    return path.absolute().as_uri() if path else url.rstrip("/")
