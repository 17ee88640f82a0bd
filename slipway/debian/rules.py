"""What of a root file system stays out of the image, each with its reason. Pure: paths in, reasons out.

A pattern is a path relative to the root; `*` stands for any characters but `/`, `**` for any characters. The first
rule that fits decides, so exceptions stand before what they are an exception to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FORMAT = 2
"""Part of the layer's key: raise it when rules here, edits in clean or settings in bootstrap would give other bytes."""


@dataclass(frozen=True)
class Rule:
    """What happens to paths that fit: kept, or dropped, and why."""

    pattern: str
    keep: bool
    why: str


def _drop(why: str, *patterns: str) -> list[Rule]:
    return [Rule(pattern, False, why) for pattern in patterns]


def _keep(why: str, *patterns: str) -> list[Rule]:
    return [Rule(pattern, True, why) for pattern in patterns]


RULES: tuple[Rule, ...] = (
    *_drop("of the machine that built it", "etc/hostname", "etc/resolv.conf", "etc/mtab"),
    *_drop(
        "left by mmdebstrap",
        *("etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap"),
        *("etc/dpkg/dpkg.cfg.d/zz-slipway-build", "etc/apt/sources.list", "etc/apt/sources.list.d/**"),
    ),
    *_drop("identity of a machine", "etc/machine-id", "var/lib/dbus/machine-id", "etc/ssh/ssh_host_*"),
    *_drop("backup of what stands beside it", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-"),
    *_drop("backup of what stands beside it", "etc/subuid-", "etc/subgid-", "var/backups/**"),
    *_drop("backup of what stands beside it", "var/cache/debconf/*-old", "var/lib/dpkg/*-old"),
    *_drop("lock file", "etc/.pwd.lock", "var/lib/dpkg/lock*", "var/lib/dpkg/triggers/Lock"),
    *_drop("made over the merged tree by the image's last layer", "etc/ld.so.cache"),
    *_drop("cache", "var/cache/ldconfig/**", "var/cache/man/**", "var/cache/fontconfig/**"),
    *_keep("dpkg knows them, apt wants them", "var/cache/apt/archives/partial", "var/lib/apt/lists/partial"),
    *_drop("cache that apt makes anew", "var/cache/apt/**", "var/lib/apt/lists/**"),
    *_drop("log", "var/log/**"),
    *_drop("state of a running system", "run/**", "tmp/**", "var/tmp/**", "dev/**", "proc/**", "sys/**"),
    *_keep("licence", "usr/share/common-licenses/**"),
    *_keep("licence", "usr/share/doc/*/copyright", "usr/share/doc/**/*LICEN[CS]E*", "usr/share/doc/**/NOTICE*"),
    # A package without a copyright file of its own has a link to the folder of one that has it.
    *_keep("way to a licence", "usr/share/doc/*"),
    *_drop("documentation", "usr/share/doc/**", "usr/share/doc-base/**", "usr/share/info/**"),
    *_keep("packages with manual pages want to link into it", "usr/share/man", "usr/share/man/man?"),
    *_drop("manual page", "usr/share/man/**"),
    *_drop("translation", "usr/share/locale/**"),
    *_drop("for Debian's developers", "usr/share/lintian/**"),
)

KEPT_FOLDERS = frozenset(
    {"run", "tmp", "var/tmp", "dev", "proc", "sys", "var/log", "var/cache/apt", "var/cache/apt/archives", "var/log/apt"}
    | {"var/lib/apt/lists", "var/cache/ldconfig", "etc/apt/sources.list.d", "var/backups", "usr/share/locale"}
)
"""Folders that stay although all in them goes: programs expect them, or engines mount on them."""


def _compiled(pattern: str) -> str:
    parts = re.split(r"(\*\*|\*|\?|\[[^]]*\])", pattern)
    special = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(special.get(part, part if part.startswith("[") else re.escape(part)) for part in parts)


_ANY = re.compile("|".join(f"(?P<r{number}>{_compiled(rule.pattern)})" for number, rule in enumerate(RULES)), re.DOTALL)


def rule_for(path: str) -> Rule | None:
    """The rule that decides about a path, None where none speaks of it (it stays)."""
    match = _ANY.fullmatch(path)
    return None if match is None or match.lastgroup is None else RULES[int(match.lastgroup[1:])]


def dropped(path: str, is_folder: bool) -> bool:
    """Whether a path stays out of the image."""
    rule = rule_for(path)
    if rule is None or (is_folder and path in KEPT_FOLDERS):
        return False
    return not rule.keep
