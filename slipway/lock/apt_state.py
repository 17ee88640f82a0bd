"""An apt of our own: empty status, own lists and sources, Debian's keys. The only module of the lock that runs apt.

What the machine has installed, pinned, held or switched off must not show in a lock. So nothing of its apt is read
but how servers are reached (proxies, certificates, credentials), and what may be switched off on a machine is on:
signatures, dates, Valid-Until. See apt.conf(5), apt-secure(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from slipway.errors import SlipwayError
from slipway.host import apt as host_apt
from slipway.host import process
from slipway.host.packages import Tool
from slipway.lock.archive import Archives

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PRINTED = re.compile(r"'(?P<url>[^']+)' \S+ (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})")
_CARRIED = re.compile(r"Acquire::(?:https?::|Retries\b|ForceIPv[46]\b)", re.IGNORECASE)


class NotAnswered(Exception):
    """An archive couldn't be read, or isn't Debian's by its signature. `text` is what apt said."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NoInstall(Exception):
    """apt finds no way to install what is asked. `text` is what apt said."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True)
class Index:
    """A downloaded index file: `of` is "deb" or "deb-src"."""

    of: str
    suite: str
    component: str
    path: Path


@dataclass(frozen=True)
class Printed:
    """One package that apt would download: path below the archive's root, size in bytes."""

    path: str
    size: int
    sha256: str


class AptState:
    """A private apt state in `folder`, which must be empty. Call `update`, then ask."""

    def __init__(self, folder: Path, arch: str, archives: Archives) -> None:
        self.folder = folder
        self.arch = arch
        self.archives = archives
        for name in ("etc/parts", "etc/sources.list.d", "state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        for name in ("status", "etc/preferences", "etc/main.conf"):
            (folder / name).touch()
        (folder / "apt.conf").write_text(self._configuration())

    def update(self, debs: Sequence[str], sources: Sequence[str], component: str = "main") -> None:
        """Downloads the indices of binary suites and of source suites and checks their signatures. NotAnswered.

        The first of `debs` has to have packages; those of corrections may be empty, as at a suite's beginning.
        """
        host_apt.ensure([Tool(str(KEYRING), "debian-archive-keyring", "it checks Debian's signatures")])
        lines = [self._source("deb", suite, component) for suite in debs]
        lines += [self._source("deb-src", suite, component) for suite in sources]
        (self.folder / "etc/sources.list").write_text("".join(lines))
        done = self._apt("apt-get", "-qq", "-o", "APT::Update::Error-Mode=any", "update")
        if done.code != 0:
            raise NotAnswered(done.err.strip() or done.out.strip())
        wanted = [*(("deb", suite) for suite in debs[:1]), *(("deb-src", suite) for suite in sources)]
        have = {(index.of, index.suite) for index in self.indices()}
        lacking = [suite for of, suite in wanted if (of, suite) not in have]
        if lacking:
            raise NotAnswered(f"no index of {', '.join(lacking)}")

    def indices(self) -> tuple[Index, ...]:
        """The index files that lie here."""
        form = "$(TARGET_OF)|$(RELEASE)|$(COMPONENT)|$(FILENAME)|$(CREATED_BY)"
        listed = self._apt("apt-get", "indextargets", "--format", form).out
        found = []
        for line in listed.splitlines():
            of, suite, component, path, kind = line.split("|")
            if kind in ("Packages", "Sources") and Path(path).is_file():
                found.append(Index(of, suite, component, Path(path)))
        return tuple(found)

    def prefer(self, versions: Iterable[tuple[str, str]]) -> None:
        """Makes apt take these (package, version) pairs where an archive still has them; apt_preferences(5)."""
        (self.folder / "etc/preferences").write_text(
            "".join(f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n\n" for name, version in versions)
        )

    def closure(self, names: Sequence[str]) -> tuple[Printed, ...]:
        """Everything that a system of essential packages and `names` consists of, without recommends. NoInstall."""
        done = self._apt("apt-get", "-qq", "--print-uris", "--yes", "install", "?essential", *names)
        if done.code != 0:
            raise NoInstall(done.err.strip() or done.out.strip())
        return tuple(self._printed(line) for line in done.out.splitlines() if line.startswith("'"))

    def _printed(self, line: str) -> Printed:
        match = _PRINTED.fullmatch(line.strip())
        path = self.archives.path_of(match["url"]) if match else None
        if match is None or path is None:
            raise SlipwayError("apt names a file that the lock can't hold", where=line)
        return Printed(unquote(path), int(match["size"]), match["sha256"])

    def _source(self, kind: str, suite: str, component: str) -> str:
        return f"{kind} [signed-by={KEYRING}] {self.archives.root_of(suite)} {suite} {component}\n"

    def _apt(self, *words: str) -> process.Result:
        return process.run(words, env={"APT_CONFIG": str(self.folder / "apt.conf")}, check=False)

    def _configuration(self) -> str:
        folder = self.folder
        settings = {
            "Dir": folder,
            "Dir::Etc": folder / "etc",
            "Dir::Etc::main": folder / "etc/main.conf",
            "Dir::Etc::parts": folder / "etc/parts",
            "Dir::Etc::sourcelist": folder / "etc/sources.list",
            "Dir::Etc::sourceparts": folder / "etc/sources.list.d",
            "Dir::Etc::preferences": folder / "etc/preferences",
            "Dir::Etc::preferencesparts": folder / "etc/parts",
            "Dir::Etc::trusted": folder / "etc/trusted.gpg",
            "Dir::Etc::trustedparts": folder / "etc/parts",
            "Dir::Etc::netrc": "/etc/apt/auth.conf",
            "Dir::Etc::netrcparts": "/etc/apt/auth.conf.d",
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "APT::Architecture": self.arch,
            "APT::Get::AllowUnauthenticated": "false",
            "APT::Install-Recommends": "false",
            "APT::Install-Suggests": "false",
            "APT::Sandbox::User": "root",  # the folder is private, apt's own user can't read it
            "APT::Solver": "internal",  # the one that every apt from 2.4 to 3.x has
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowWeakRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "Acquire::Check-Date": "true",
            "Acquire::Check-Valid-Until": "true",
            "Acquire::ForceHash": "SHA256",
            "Acquire::GzipIndexes": "false",
            "Acquire::Languages": "none",
        }
        own = "".join(f'{key} "{value}";\n' for key, value in settings.items())
        lists = f'APT::Architectures {{ "{self.arch}"; }};\nDPkg::Pre-Install-Pkgs {{}};\n'
        return own + lists + "".join(f"{line}\n" for line in carried())


def carried() -> list[str]:
    """The lines of the machine's apt configuration that say how servers are reached."""
    dump = process.run(["apt-config", "dump"], pass_names=("APT_CONFIG",)).out
    return [line for line in dump.splitlines() if _CARRIED.match(line)]
