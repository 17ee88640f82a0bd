"""What the scripts of unpacked packages would have done, and where that went instead. No script is run.

Each command of a script (deb-postinst(5), deb-triggers(5)) is looked up by its name. What nobody has looked at is
listed as UNKNOWN and told as a warning, so that a new version of the installer can't bring an effect unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "triggers")

UNKNOWN = "left undone, and nobody has looked at it (slipway/fabric/effects.py)"
_UPGRADES = "only for upgrading a running system; an image is made anew"
_NODE = "left to the node: a container has no devices of its own to set up"
WENT = {
    "ldconfig": "layer ldcache: made over the merged tree by the image's own ldconfig",
    "udevadm": _NODE,
    "modprobe": "left to the node: kernel modules",
    "depmod": "left to the node: kernel modules",
    "dkms": "left to the node: kernel modules",
    "update-initramfs": "left to the node: kernel modules",
    "sysctl": "left to the node: kernel settings, huge pages among them",
    "systemctl": "left out: no service runs in a container",
    "deb-systemd-helper": "left out: no service runs in a container",
    "deb-systemd-invoke": "left out: no service runs in a container",
    "invoke-rc.d": "left out: no service runs in a container",
    "update-rc.d": "left out: no service runs in a container",
    "dpkg-maintscript-helper": _UPGRADES,
    "dpkg-divert": _UPGRADES,
    "rmdir": _UPGRADES,
    "limits": "the container's: memlock is a setting of the engine or of the pod",
}

_SYNTAX = re.compile(
    r"(set|if|then|else|elif|fi|case|esac|for|do|done|while|exit|return|true|false|:|\[|test|echo|printf|local|shift|\{|\}"
    r"|;;|\.|source|trap|unset|export|[A-Za-z_]\w*=.*|.*\)|[\w-]+\(\))"
)
_SEPARATORS = re.compile(r"\s*(?:;;|;|&&|\|\||\||\bthen\b|\bdo\b|\belse\b)\s*")


@dataclass(frozen=True)
class Effect:
    """One command that was not run: in which script it stands, and where its effect went."""

    script: str
    command: str
    went: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def effects(scripts: Iterable[tuple[str, str]]) -> list[Effect]:
    """Those of a package's scripts, given as (name, text), each once, in order."""
    found: list[Effect] = []
    for name, text in scripts:
        commands = _triggers(text) if name == "triggers" else _commands(text)
        found += [effect for command in commands if (effect := _effect(name, command)) not in found]
    return found


def _effect(script: str, command: str) -> Effect:
    word = command.split()[0].rpartition("/")[2]
    if "/etc/security/limits" in command:
        word = "limits"
    return Effect(script, command, WENT.get(word, UNKNOWN))


def _commands(text: str) -> Iterator[str]:
    """The commands of a shell script, without its syntax, tests and messages."""
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line)
        writes = "/etc/" in line and re.search(r">>?\s*/", line)
        if writes:
            yield line.strip()
            continue
        for part in _SEPARATORS.split(line):
            part = re.sub(r"^(if|elif|while|!)\s+", "", re.sub(r"\s*\d?>.*", "", part.strip()))
            if part and not _SYNTAX.fullmatch(part.split()[0]):
                yield part


def _triggers(text: str) -> Iterator[str]:
    """`activate-noawait ldconfig` → `ldconfig`; `interest` lines name what a package reacts to, and never will."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) == 2 and words[0].startswith("activate"):
            yield words[1]
