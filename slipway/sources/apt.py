"""What apt is configured with on this machine: which archives hold Debian packages, and how they are reached.

Formats: sources.list(5), one line per entry and deb822; apt.conf(5) as `apt-config dump` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.host import process
from slipway.sources.settings import HttpSettings

ETC = Path("/etc/apt")
TEMPLATES = Path("/usr/share/python-apt/templates")
"""Debian's and its derivatives' default archives, from the package python-apt-common."""

SUITE = re.compile(
    r"(?:(?:old){0,2}stable|testing|unstable|sid|buster|bullseye|bookworm|trixie|forky|duke)"
    r"(?:-(?:security|updates|backports|backports-sloppy|proposed-updates)|/updates)?"
)
"""Suites of Debian's own archive. Other archives (Ubuntu's, vendors') have other names and are not asked."""

YES = ("yes", "true", "with", "on", "enable", "1")


@dataclass(frozen=True)
class Archive:
    """One archive and the suites that are configured from it. root has no slash at its end."""

    root: str
    suites: tuple[str, ...] = ()
    components: tuple[str, ...] = ()

    @property
    def is_debian(self) -> bool:
        """Whether it looks like (a mirror of) Debian's archive."""
        return "main" in self.components and any(SUITE.fullmatch(suite) for suite in self.suites)


def parse_list(text: str) -> Iterator[Archive]:
    """Entries of a one-line-style file: `deb [ option=value … ] uri suite component…`."""
    for line in text.splitlines():
        words = re.sub(r"\[[^\]]*\]", " ", line.partition("#")[0], count=1).split()
        if len(words) >= 3 and words[0] in ("deb", "deb-src"):
            yield Archive(words[1].rstrip("/"), (words[2],), tuple(words[3:]))


def parse_deb822(text: str) -> Iterator[Archive]:
    """Entries of a deb822-style file: stanzas of `Field: value`, continued on lines that start with a blank."""
    for stanza in stanzas(text):
        if stanza.get("enabled", "yes").lower() not in YES:
            continue
        for root in stanza.get("uris", "").split():
            yield Archive(
                root.rstrip("/"), tuple(stanza.get("suites", "").split()), tuple(stanza.get("components", "").split())
            )


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """The stanzas of a deb822 file, field names in lower case, values with their line breaks; comments left out."""
    stanza: dict[str, str] = {}
    field = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, ""
        elif line[0] in " \t":
            if field:
                stanza[field] += "\n" + line.strip()
        else:
            name, colon, value = line.partition(":")
            field = name.strip().lower() if colon else ""
            if field:
                stanza[field] = value.strip()
    if stanza:
        yield stanza


def mirror_list(text: str) -> list[str]:
    """Addresses of a mirror list (apt-transport-mirror(1)): one a line, `key:value` words after a tab."""
    lines = (line.split("#", 1)[0].split() for line in text.splitlines())
    return [words[0].rstrip("/") for words in lines if words]


def configured(etc: Path = ETC) -> list[Archive]:
    """All archives in sources.list and sources.list.d, in the order in which apt reads them, mirror lists resolved."""
    found: list[Archive] = []
    parts = etc / "sources.list.d"
    for path in (etc / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))):
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError:
            continue
        found += parse_deb822(text) if path.suffix == ".sources" else parse_list(text)
    return [resolved for archive in found for resolved in _resolve(archive)]


def _resolve(archive: Archive) -> Iterator[Archive]:
    """http, https and file archives as they are; `mirror+file:` and `copy:` turned into those; others (cdrom) left."""
    scheme, _, rest = archive.root.partition(":")
    if scheme in ("http", "https", "file"):
        yield archive
    elif scheme == "copy":
        yield Archive(f"file:{rest}", archive.suites, archive.components)
    elif scheme in ("mirror+file", "mirror+copy"):
        try:
            text = Path("/" + rest.lstrip("/")).read_text("utf-8", errors="replace")
        except OSError:
            return
        for root in mirror_list(text):
            yield Archive(root, archive.suites, archive.components)


def debian_archives(archives: Iterable[Archive]) -> list[Archive]:
    """Those that hold Debian's packages, each root once, with all suites configured from it."""
    roots: dict[str, list[Archive]] = {}
    for archive in archives:
        if archive.is_debian:
            roots.setdefault(archive.root, []).append(archive)
    return [
        Archive(
            root,
            tuple(dict.fromkeys(suite for entry in entries for suite in entry.suites)),
            tuple(dict.fromkeys(component for entry in entries for component in entry.components)),
        )
        for root, entries in roots.items()
    ]


def template_archives(suite: str, templates: Path = TEMPLATES) -> list[Archive]:
    """Debian's default archives for a suite such as bookworm and its security suite, as python-apt-common tells them.

    For hosts whose apt knows no Debian archive (Ubuntu). Empty where the package is not installed.
    """
    try:
        text = (templates / "Debian.info").read_text("utf-8", errors="replace")
    except OSError:
        return []
    found: dict[str, str] = {}
    for stanza in stanzas(text):
        if "baseuri" in stanza and "suite" in stanza:
            found.setdefault(stanza["suite"].replace("{series}", suite), stanza["baseuri"].rstrip("/"))
    wanted = [name for name in (suite, f"{suite}-security") if name in found]
    return [Archive(found[name], (name,), ("main",)) for name in wanted]


def parse_config(text: str) -> HttpSettings:
    """How apt reaches servers, out of `apt-config dump`: proxies (also for single hosts) and CA file."""
    proxies: dict[str, str] = {}
    hosts: dict[str, str] = {}
    authorities: list[Path] = []
    for line in text.splitlines():
        match = re.fullmatch(r'Acquire::(https?)::([\w.:-]+) "(.*)";', line.strip(), re.IGNORECASE)
        if match is None or not match[3]:
            continue
        scheme, key, value = match[1].lower(), match[2].lower(), match[3]
        proxy = "" if value == "DIRECT" else value
        if key == "proxy":
            proxies[scheme] = proxy
        elif key.startswith("proxy::"):
            hosts[key[len("proxy::") :]] = proxy
        elif key == "cainfo":
            authorities.append(Path(value))
    if "http" in proxies:
        proxies.setdefault("https", proxies["http"])  # as apt does
    return HttpSettings(ca_files=tuple(authorities), proxies=proxies, host_proxies=hosts)


def ask_config(etc: Path = ETC) -> HttpSettings:
    """Ask the machine's apt how it reaches servers; the defaults where there is no apt."""
    if process.which("apt-config") is None:
        return HttpSettings()
    dumped = process.run(["apt-config", "dump"], pass_names=("APT_CONFIG",), check=False).out
    logins = (etc / "auth.conf", *sorted((etc / "auth.conf.d").glob("*.conf")))
    return replace(parse_config(dumped), netrc_files=tuple(path for path in logins if path.is_file()))
