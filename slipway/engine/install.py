"""Installs Docker from Debian's or Ubuntu's packages.

Debian 12's own engine is 20.10, without BuildKit's command line. Debian's later releases carry one that runs on
Debian 12 unchanged (it needs only libc 2.34), so it is taken from there, by way of a private apt configuration: the
machine's own sources and preferences stay as they are. Where that fails, Debian 12's own has to do.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from slipway.errors import MissingError
from slipway.host import apt, process

NEWER_SUITE = {("debian", "12"): "forky"}
"""(ID, VERSION_ID) of /etc/os-release → Debian release whose engine is taken instead of the own, old one."""

FROM_NEWER = ("docker.io", "docker-cli", "docker-buildx", "containerd")
WANTED = ("docker.io", "docker-cli", "docker-buildx", "iptables")
"""docker-cli and docker-buildx are packages of their own in some releases only."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
WHY = "container tests run the image in a real engine"
UNITS = ("docker.service", "docker.socket", "containerd.service")


def install() -> None:
    """Install an engine and its command line as root, saying so; no service is left running.

    Raises MissingError, with the command to run, when it can't be done from here.
    """
    release = os_release()
    suite = NEWER_SUITE.get((release.get("ID", ""), release.get("VERSION_ID", "")))
    with services_stay_off():
        if suite is not None and apt.can_install() and _from_newer(suite):
            return
        apt.install([*offered(WANTED)] or ["docker.io"], why=WHY)
    if process.which("dockerd") is None or process.which("docker") is None:
        raise MissingError("Docker's packages are installed, but dockerd or docker is missing", remedy="see apt's log")


def os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    """The fields of /etc/os-release: https://www.freedesktop.org/software/systemd/man/os-release.html."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def offered(packages: tuple[str, ...]) -> list[str]:
    """Those of `packages` that this machine's apt can install; updates its lists when it knows none of them."""
    for attempt in ("as is", "updated"):
        if attempt == "updated":
            apt.apt_get("update", "-q")
        known = [name for name in packages if _has_candidate(name)]
        if known:
            return known
    return []


def _has_candidate(package: str) -> bool:
    said = process.run(["apt-cache", "policy", package], check=False).out
    return any(line.strip().startswith("Candidate:") and "(none)" not in line for line in said.splitlines())


def _from_newer(suite: str) -> bool:
    """Install from a later Debian release through an apt configuration of our own. False when that does not work."""
    mirror = debian_mirror()
    if mirror is None:
        return False
    print(f"installing docker.io of Debian {suite} with apt-get, as you are root ({WHY})", file=sys.stderr, flush=True)
    with private_apt(mirror, suite) as options, apt.one_at_a_time():
        if apt.apt_get("update", "-q", *options).code != 0:
            return False
        result = apt.apt_get("install", *apt.OPTIONS, *options, *FROM_NEWER, "iptables")
    if result.code != 0:
        print(f"Debian {suite}'s engine can't be installed here:\n{process.last_lines(result.err)}", file=sys.stderr)
    return result.code == 0


def debian_mirror() -> str | None:
    """The archive that this machine's apt takes Debian's main from: no host stands in this project."""
    said = process.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"])
    for line in said.out.splitlines():
        address, _, codename = line.partition(" ")
        if codename and "-" not in codename and not address.startswith(("file:", "cdrom:")):
            return address
    return None


@contextlib.contextmanager
def private_apt(mirror: str, suite: str) -> Iterator[list[str]]:
    """Options that make apt-get see the machine's sources and `suite`, from which only the engine may come."""
    with tempfile.TemporaryDirectory(prefix="slipway-apt-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt downloads as its own user
        sources, preferences, lists = folder / "sources.d", folder / "preferences.d", folder / "lists"
        for path in (sources, preferences, lists):
            path.mkdir()
        for path in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
            if path.suffix in (".list", ".sources") and path.is_file():
                (sources / path.name).write_bytes(path.read_bytes())
        (sources / "slipway-engine.sources").write_text(source_entry(mirror, suite))
        (preferences / "slipway-engine").write_text(pins(suite))
        yield [
            *("-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={sources}"),
            *("-o", f"Dir::Etc::PreferencesParts={preferences}", "-o", f"Dir::State::Lists={lists}"),
        ]


def source_entry(mirror: str, suite: str) -> str:
    """A deb822 source, sources.list(5)."""
    return f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"


def pins(suite: str) -> str:
    """apt_preferences(5): nothing comes from `suite` but the engine."""
    return (
        f"Package: *\nPin: release n={suite}\nPin-Priority: -1\n\n"
        f"Package: {' '.join((*FROM_NEWER, 'tini-static'))}\nPin: release n={suite}\nPin-Priority: 990\n"
    )


@contextlib.contextmanager
def services_stay_off() -> Iterator[None]:
    """Keep systemd from starting what is being installed: the tests start an engine of their own and stop it again."""
    if not Path("/run/systemd/system").is_dir():
        yield
        return
    process.run(["systemctl", "mask", "--runtime", *UNITS], check=False)
    try:
        yield
    finally:
        process.run(["systemctl", "unmask", "--runtime", *UNITS], check=False)
