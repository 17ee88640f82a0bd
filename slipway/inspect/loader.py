"""Finds libraries as the dynamic loader would, inside an image's tree.

Order (ld.so(8)): RPATH of the file where it has no RUNPATH, LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, the default
folders. Without a cache the folders of ld.so.conf stand in for it. What the loading program adds at run time (its own
RPATH, what it loaded before) is not known here: `by_soname` says which files could be meant.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from slipway.inspect import elf, ldcache
from slipway.inspect.image import Image
from slipway.inspect.tree import Node, Tree

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


class Found(NamedTuple):
    """A library and the rule that found it: "rpath", "LD_LIBRARY_PATH", "runpath", "ld.so.cache", "default folder"."""

    node: Node
    how: str


class Loader:
    """`find` is what ld.so does; `by_soname` are all libraries of the image, each real file once."""

    def __init__(self, image: Image) -> None:
        self.tree: Tree = image.tree
        self.architecture = image.layout.architecture
        self._env = _split(image.layout.env.get("LD_LIBRARY_PATH", ""))
        self._defaults = default_folders(self.architecture)
        cache = image.text("etc/ld.so.cache")
        self.cache: dict[str, str] | None = None
        self.cache_error = ""
        if cache is not None:
            try:
                entries = ldcache.parse(cache)
            except ValueError as error:
                self.cache_error = str(error)
            else:
                self.cache = {}
                for entry in entries:
                    if entry.plain:
                        self.cache.setdefault(entry.name, entry.path)
        self.configured = configured_folders(image)
        self.by_soname: dict[str, list[Node]] = defaultdict(list)
        for node in image.tree.files():
            facts = node.member.elf
            if node.member.kind == "file" and facts and facts.kind == elf.SHARED and facts.for_host:
                name = posixpath.basename(node.path)
                for known in {facts.soname, name if ".so" in name else ""} - {""}:
                    self.by_soname[known].append(node)

    def find(self, user: Node, name: str) -> Found | None:
        """The library that `user` gets for `name`, None where none of the loader's own rules gives one."""
        facts = user.member.elf
        if facts is None:
            return None
        if "/" in name:
            return self._usable(_expand(name, user.path), facts, "path")
        if not facts.runpath and (found := self._in_folders(user, name, facts.rpath, "rpath")):
            return found
        if found := self._in_folders(user, name, self._env, "LD_LIBRARY_PATH"):
            return found
        if found := self._in_folders(user, name, facts.runpath, "runpath"):
            return found
        if self.cache is not None:
            path = self.cache.get(name, "")
            barred = facts.no_default and posixpath.dirname(path).lstrip("/") in self._defaults
            if path and not barred and (found := self._usable(path, facts, "ld.so.cache")):
                return found
        elif found := self._in_folders(user, name, self.configured, "ld.so.conf"):
            return found
        return None if facts.no_default else self._in_folders(user, name, self._defaults, "default folder")

    def _in_folders(self, user: Node, name: str, folders: tuple[str, ...], how: str) -> Found | None:
        facts = user.member.elf
        if facts is None:
            return None
        for folder in folders:
            # An empty folder is the working directory, which is not the image's business.
            if folder and (found := self._usable(f"{_expand(folder, user.path)}/{name}", facts, how)):
                return found
        return None

    def _usable(self, path: str, user: elf.Elf, how: str) -> Found | None:
        """Files for another processor or word size are passed over, as the loader does."""
        node = self.tree.get(path.lstrip("/"))
        facts = node.member.elf if node else None
        if node is None or facts is None or (facts.machine, facts.bits) != (user.machine, user.bits):
            return None
        return Found(node, how)


def default_folders(architecture: str) -> tuple[str, ...]:
    """Debian's built-in folders, relative to the root; other systems have lib64."""
    triplet = TRIPLETS.get(architecture)
    own = (f"lib/{triplet}", f"usr/lib/{triplet}") if triplet else ()
    return (*own, "lib64", "usr/lib64", "lib", "usr/lib")


def configured_folders(image: Image) -> tuple[str, ...]:
    """The folders of /etc/ld.so.conf and of the files it includes, relative to the root, in order."""
    texts = image.texts()
    return tuple(dict.fromkeys(_configured(texts, "etc/ld.so.conf", 0)))


def _configured(texts: Mapping[str, bytes], path: str, depth: int) -> list[str]:
    folders: list[str] = []
    for line in texts.get(path, b"").decode("utf-8", "surrogateescape").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth < 4:
            for pattern in words[1:]:
                wanted = posixpath.normpath(pattern.lstrip("/") if pattern[:1] == "/" else f"etc/{pattern}")
                for other in sorted(texts):
                    if _matches(other, wanted):
                        folders += _configured(texts, other, depth + 1)
        elif words:
            folders.append(words[0].partition("=")[0].strip("/"))
    return folders


def _matches(path: str, pattern: str) -> bool:
    """A glob whose "*" stays inside its folder."""
    folder, _, name = path.rpartition("/")
    wanted_folder, _, wanted = pattern.rpartition("/")
    head, star, tail = wanted.partition("*")
    return folder == wanted_folder and (
        name == wanted or bool(star) and len(name) >= len(head + tail) and name.startswith(head) and name.endswith(tail)
    )


def _expand(path: str, user: str) -> str:
    """$ORIGIN is the folder of the file that asks."""
    origin = "/" + posixpath.dirname(user)
    for token, value in (("$ORIGIN", origin), ("${ORIGIN}", origin), ("$LIB", "lib"), ("${LIB}", "lib")):
        path = path.replace(token, value)
    return path


def _split(value: str) -> tuple[str, ...]:
    return tuple(value.replace(";", ":").split(":")) if value else ()
