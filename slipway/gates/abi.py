"""Every library that a program or library asks for is in the image, once, with the symbol versions it asks for.

Subject of a finding, for excuses: `PATH needs LIBRARY` (…/libplugin_GDS.so needs libcufile.so.0), `LIBRARY` where
two files answer to one name, or the path alone for damaged files, other machines and missing program interpreters.

A library counts as found where the dynamic loader would find it (slipway.inspect.loader). Python extension modules
are often linked with libraries that another package loads before (torch's, NVIDIA's wheels): in one venv exactly one
file of that name is enough, and is noted as "loaded before". What the GPU's driver brings is never in an image.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from slipway.gates.driver import DRIVER
from slipway.gates.model import Finding, GateSettings, Severity
from slipway.inspect import elf
from slipway.inspect.image import Image
from slipway.inspect.tree import Node

NAME = "abi"
PROVES = "every library and symbol version that is asked for is in the image, once, for its processor"

_VENDORED = re.compile(r"-[0-9a-f]{8}\.so")
_CUDA_MAJOR = re.compile(r"lib(cudart|cublas|cublasLt|nvrtc|nvJitLink|cupti|cusparse|cufft|nppc)\.so\.(\d+)")


class Provider(NamedTuple):
    """Who answers a reference: `how` is the loader's rule, or "loaded before"."""

    node: Node
    how: str


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    yield from _Check(image).findings()


def check_part(image: Image) -> Iterator[Finding]:
    """The same for an image of which some files are not known: what those could still bring is a note, what they
    can't undo stays an error. A library of another CUDA than the one that is there is a warning."""
    yield from _Check(image, whole=False).findings()


class _Check:
    def __init__(self, image: Image, *, whole: bool = True) -> None:
        self.image = image
        self.whole = whole
        self.loader = image.loader
        self.arch = image.layout.architecture
        self.answers: dict[str, dict[str, tuple[Node, Node]]] = defaultdict(dict)

    def findings(self) -> Iterator[Finding]:
        for node in self.image.tree.files():
            for mark in node.member.marks:
                if mark.startswith("elf: "):
                    yield self._damaged(node, mark[5:])
            facts = node.member.elf
            if node.member.kind == "file" and facts is not None and facts.for_host:
                if facts.machine != self.arch or facts.bits != 64:
                    yield self._machine(node, facts)
                elif facts.dynamic:
                    yield from self._file(node, facts)
        for name, by_content in self.answers.items():
            if len(by_content) > 1:
                yield self._ambiguous(name, by_content.values())

    def _file(self, node: Node, facts: elf.Elf) -> Iterator[Finding]:
        if facts.interpreter and self.image.tree.get(facts.interpreter.lstrip("/")) is None:
            yield self._absent(
                node.path,
                f"its program interpreter {facts.interpreter} is not in the image",
                "the kernel refuses to start it: no such file or directory",
                f"take a build of {self.image.owner(node)} for this system's libc",
            )
        providers: dict[str, Provider] = {}
        for name in dict.fromkeys(facts.needed):
            if DRIVER.fullmatch(name):
                continue
            provider = self._provider(node, name)
            if isinstance(provider, Finding):
                yield provider
                continue
            providers[name] = provider
            self.answers[name].setdefault(provider.node.member.sha256, (provider.node, node))
            if provider.how == "loaded before":
                yield Finding(
                    f"{node.path} needs {name}",
                    f"{name} is {provider.node.path}, which has to be loaded before",
                    "the loader alone would not find it",
                    "nothing, as long as its package loads it first",
                    "note",
                )
        for name, versions in facts.needs:
            found = providers.get(name) or self._indirect(node, name)
            if found is not None:
                yield from self._versions(node, name, versions, found)

    def _provider(self, node: Node, name: str) -> Provider | Finding:
        found = self.loader.find(node, name)
        if found is not None:
            return Provider(found.node, found.how)
        facts = node.member.elf
        everywhere = [n for n in self.loader.by_soname.get(name, ()) if self._fits(n, facts)]
        # Nothing is loaded before a program starts; libc and its like can be started, too, and have a soname.
        program = facts is not None and facts.interpreter and not facts.soname
        scope = "" if program else venv_of(node.path)
        inside = [n for n in everywhere if scope and venv_of(n.path) == scope]
        if len(inside) > 1:
            # What a package brings itself, its own code has loaded.
            inside = [n for n in inside if n.member.owner and n.member.owner == node.member.owner] or inside
        if len({n.member.sha256 for n in inside}) == 1:
            return Provider(inside[0], "loaded before")
        if inside:
            return self._absent(
                f"{node.path} needs {name}",
                f"{len(inside)} different files are called {name}, and the loader would find none of them by itself: "
                + ", ".join(f"{n.path} ({self.image.owner(n)})" for n in inside),
                "which one is used depends on the order of imports",
                "leave one of their packages out",
            )
        return self._missing(node, name, everywhere)

    def _indirect(self, node: Node, name: str) -> Provider | None:
        """The provider of a version reference whose library is needed by a needed library only."""
        provider = None if DRIVER.fullmatch(name) else self._provider(node, name)
        return provider if isinstance(provider, Provider) else None

    @staticmethod
    def _fits(node: Node, user: elf.Elf | None) -> bool:
        facts = node.member.elf
        return bool(facts and user and (facts.machine, facts.bits) == (user.machine, user.bits))

    def _missing(self, node: Node, name: str, elsewhere: list[Node]) -> Finding:
        owner = self.image.owner(node)
        if elsewhere:
            places = ", ".join(f"{n.path} ({self.image.owner(n)})" for n in elsewhere)
            what = f"{owner} needs {name}, which the loader does not find; the image has it at {places}"
            remedy = "put its folder into /etc/ld.so.conf.d and make the cache anew; if nobody runs it, excuse it"
        else:
            what = f"{owner} needs {name}, which is not in the image"
            remedy = f"add the package that has {name}, or take a version of {_pin(owner)} that does without"
        other_cuda = False
        major = _CUDA_MAJOR.fullmatch(name)
        if major and not elsewhere:
            others = sorted(n for n in self.loader.by_soname if (m := _CUDA_MAJOR.fullmatch(n)) and m[1] == major[1])
            other_cuda = bool(others)
            if others:
                what += f"; it is built for CUDA {major[2]}, this image has {', '.join(others)}"
                remedy = f"move the pin of {_pin(owner)} to a build for the image's CUDA, or leave it out"
        why = "loading it fails: cannot open shared object file"
        return self._absent(f"{node.path} needs {name}", what, why, remedy, "warning" if other_cuda else "note")

    def _absent(self, subject: str, what: str, why: str, remedy: str, in_part: Severity = "note") -> Finding:
        """Something that is not there; `in_part` is how much that says while files are unknown."""
        return Finding(subject, what, why, remedy, "error" if self.whole else in_part)

    def _versions(self, node: Node, name: str, wanted: tuple[str, ...], provider: Provider) -> Iterator[Finding]:
        facts = provider.node.member.elf
        have = facts.defines if facts else ()
        missing = [version for version in wanted if version not in have]
        if not missing:
            return
        user, giver = self.image.owner(node), self.image.owner(provider.node)
        where = f"{provider.node.path} ({giver})"
        if not have:
            yield Finding(
                f"{node.path} needs {name}",
                f"{user} asks {name} for versions {', '.join(missing)}, {where} states none",
                "the loader accepts it with a warning: whether the functions fit is unknown",
                f"check that {_pin(giver)} is the build that {_pin(user)} was made for",
                "warning",
            )
            return
        family = missing[0].rpartition("_")[0]
        same = [version for version in have if version.rpartition("_")[0] == family] or list(have)
        yield Finding(
            f"{node.path} needs {name}",
            f"{user} needs {', '.join(missing)} of {name}; {where} provides {_span(same)}",
            f"loading it fails: version `{missing[0]}' not found",
            f"move the pin of {_pin(giver)} up to a version that has {missing[-1]}, or that of {_pin(user)} down",
        )

    def _ambiguous(self, name: str, answers: Iterable[tuple[Node, Node]]) -> Finding:
        uses = "; ".join(
            f"{node.path} ({self.image.owner(node)}) for {user.path}"
            for node, user in sorted(answers, key=lambda answer: answer[0].path)
        )
        return Finding(
            name,
            f"different files answer to {name}: {uses}",
            "in one process the first that is loaded serves all, whatever it was built with",
            "leave one out; if no process loads both, or either serves both, excuse it with that reason",
            # auditwheel puts a digest of the library as it was before its own changes into the name.
            "note" if _VENDORED.search(name) else "error",
        )

    def _machine(self, node: Node, facts: elf.Elf) -> Finding:
        owner = self.image.owner(node)
        return Finding(
            node.path,
            f"{owner} has a file for {facts.machine} ({facts.bits} bits), the image is for {self.arch}",
            "it can't run or be loaded here",
            f"lock the {self.arch} build of {_pin(owner)}",
        )

    def _damaged(self, node: Node, what: str) -> Finding:
        owner = self.image.owner(node)
        return Finding(
            node.path,
            f"{owner} has a damaged ELF file: {what}",
            "it can't be loaded, and what it needs is unknown",
            f"fetch {_pin(owner)} again; if its publisher's file is damaged, take another version",
        )


def venv_of(path: str) -> str:
    """The venv (or distribution's tree) whose packages see each other: up to and with site-packages, "" for none."""
    match = re.match(r"(.*?/(?:site|dist)-packages)/", path)
    return match[1] if match else ""


def _pin(owner: str) -> str:
    """What versions.toml calls it: `wheel nixl-cu13 1.5.1` → `nixl-cu13 1.5.1`, `layer libfabric` → `libfabric`."""
    return owner.partition(" ")[2] or owner


def _span(versions: list[str]) -> str:
    """Versions in order, the middle left out."""
    ordered = sorted(versions, key=lambda v: [int(part) if part.isdigit() else 0 for part in re.split(r"[._]", v)])
    return ", ".join(ordered) if len(ordered) <= 4 else f"{ordered[0]}, {ordered[1]} … {ordered[-1]}"
