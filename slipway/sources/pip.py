"""What pip is configured with on this machine: asked of pip itself (`pip config list`), so that every file, section and
PIP_* variable that pip obeys is obeyed here."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from slipway.host import process
from slipway.sources.netrc import user_netrc
from slipway.sources.settings import HttpSettings

SECTIONS = ("global", "install", "download", "wheel")
"""Weakest first. The environment (`:env:`) is stronger than all of them."""

PASSED = ("PIP_*", "XDG_CONFIG_DIRS", "VIRTUAL_ENV", "SSL_CERT_FILE")


@dataclass(frozen=True)
class PipConfig:
    """pip's settings as far as they say where wheels come from and how servers are reached.

    index:      the simple index; "" with no-index or where pip knows none
    index_is_default: nobody configured it, it is the one pip was built with
    find_links: folders and pages that hold wheels
    """

    index: str = ""
    index_is_default: bool = False
    extra_indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    trusted_hosts: frozenset[str] = frozenset()
    proxy: str = ""
    timeout: float = 60.0

    @property
    def http(self) -> HttpSettings:
        """How pip's servers are reached."""
        return HttpSettings(
            ca_files=(Path(self.cert).expanduser(),) if self.cert else (),
            client_cert=Path(self.client_cert).expanduser() if self.client_cert else None,
            trusted_hosts=self.trusted_hosts,
            proxies={"http": self.proxy, "https": self.proxy} if self.proxy else {},
            timeout=self.timeout,
            netrc_files=user_netrc(),
        )


def parse_config_list(text: str) -> dict[str, str]:
    """`pip config list`'s output as option → value, the strongest section's; empty values count as not set, as in pip.

    A line is `section.option='value'`, the value a Python string. Lines that are none are passed over.
    """
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(:env:|[\w-]+)\.([\w-]+)=(.*)", line.strip())
        if match is None:
            continue
        section, option, literal = match.groups()
        strength = len(SECTIONS) if section == ":env:" else SECTIONS.index(section) if section in SECTIONS else -1
        try:
            value = ast.literal_eval(literal)
        except (ValueError, SyntaxError):
            continue
        option = option.replace("_", "-").lower()
        if strength >= 0 and isinstance(value, str) and value.strip() and strength >= found.get(option, (-1, ""))[0]:
            found[option] = (strength, value)
    return {option: value for option, (_strength, value) in found.items()}


def default_index(help_text: str) -> str:
    """The index that pip takes where none is configured, out of `pip help install`; "" where it does not say."""
    match = re.search(r"--index-url\s.*?\(default\s+([^\s)]+)\s*\)", help_text, re.DOTALL)
    return match[1] if match else ""


def from_options(options: Mapping[str, str], default: str = "") -> PipConfig:
    """The settings that matter here. `default` is the index used where none is configured."""
    no_index = options.get("no-index", "").strip().lower() in ("1", "true", "yes", "on", "y", "t")
    timeout = options.get("timeout", options.get("default-timeout", ""))
    return PipConfig(
        index="" if no_index else options.get("index-url", default).strip(),
        index_is_default=not no_index and "index-url" not in options,
        extra_indexes=() if no_index else tuple(options.get("extra-index-url", "").split()),
        find_links=tuple(options.get("find-links", "").split()),
        cert=options.get("cert", "").strip(),
        client_cert=options.get("client-cert", "").strip(),
        trusted_hosts=frozenset(options.get("trusted-host", "").split()),
        proxy=options.get("proxy", "").strip(),
        timeout=max(60.0, float(timeout)) if re.fullmatch(r"\s*\d+(\.\d+)?\s*", timeout) else 60.0,
    )


def pythons() -> Iterable[str]:
    """Interpreters whose pip may be asked, best first: ours, then the machine's (ours may be without pip)."""
    found = process.which("python3")
    return dict.fromkeys((sys.executable, *([str(found)] if found else ())))


def ask(*, default: bool = True) -> PipConfig:
    """Ask the machine's pip. Takes a third of a second, so do it only when something has to be fetched.

    default: also ask which index pip takes where none is configured
    """
    for python in pythons():
        with ThreadPoolExecutor(max_workers=2) as pool:  # each call starts an interpreter of its own
            listing = pool.submit(_run, python, "config", "list")
            helping = pool.submit(_run, python, "help", "install") if default else None
        listed = listing.result()
        if listed.code == 0:
            return from_options(parse_config_list(listed.out), default_index(helping.result().out) if helping else "")
    return PipConfig()


def _run(python: str, *arguments: str) -> process.Result:
    wide = {"COLUMNS": "400"}  # no line breaks inside addresses
    return process.run([python, "-m", "pip", *arguments], pass_names=PASSED, env=wide, check=False)
