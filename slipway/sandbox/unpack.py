"""A root file system of .debs without running their scripts: good enough to compile in, and there in seconds.

Each worker is a process that has confined itself to the new root (chroot), so that no link in a package leads it to a
file of the machine.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from slipway.debian.deb import tar_in
from slipway.inspect.untar import TarMember, TarReader

FORMAT = 1
"""Part of the keys of what is compiled: raise it when the same packages would give another tree."""

SKIPPED = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/lintian/")
ALTERNATIVES = {
    "usr/bin/awk": ("mawk", "gawk"),
    "usr/bin/aclocal": ("aclocal-*",),
    "usr/bin/automake": ("automake-*",),
    "usr/bin/cc": ("gcc",),
}
"""Links that packages' scripts would make (update-alternatives(1)), and what may stand behind them."""


def unpack(root: Path, debs: Sequence[Path], links: Sequence[str], workers: int) -> None:
    """Unpack `debs` into the empty folder `root`. `links` are folders of / that lie in /usr.

    Raises SystemExit when a worker fails; its words are on stderr. Needs the right to chroot.
    """
    for link in links:
        (root / "usr" / link).mkdir(parents=True)
        (root / link).symlink_to(f"usr/{link}")
    shares = shared(debs, [deb.stat().st_size for deb in debs], workers)
    children = [_start(root, share) for share in shares]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        raise SystemExit("unpacking packages failed")
    for link, patterns in ALTERNATIVES.items():
        _alternative(root, link, patterns)


def shared(items: Sequence[Path], sizes: Sequence[int], shares: int) -> list[list[Path]]:
    """`items` in at most `shares` lists of about the same size, big ones first."""
    bins: list[tuple[int, int, list[Path]]] = [(0, number, []) for number in range(max(shares, 1))]
    for size, item in sorted(zip(sizes, items, strict=True), reverse=True):
        total, number, least = min(bins, key=lambda each: each[:2])
        bins[number] = (total + size, number, [*least, item])
    return [items for _, _, items in bins if items]


def _start(root: Path, debs: Sequence[Path]) -> int:
    """Fork a worker that unpacks `debs`; returns its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.umask(0)
        files = [deb.open("rb") for deb in debs]
        os.chroot(root)
        os.chdir("/")
        for file in files:
            with file, tar_in(file, Path(file.name).name, "data") as tar:
                _extract(tar)
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _extract(tar: TarReader) -> None:
    """Unpack into the current folder, which is the root. Owners are not kept: all belongs to who unpacks."""
    for member in tar:
        if member.path and not member.path.startswith(SKIPPED):
            _member(tar, member)


def _member(tar: TarReader, member: TarMember) -> None:
    mode = member.mode & 0o777
    if member.kind == "directory":
        # mkdir fails where a link into /usr stands for the folder, as it should.
        with contextlib.suppress(FileExistsError):
            os.mkdir(member.path, mode | 0o700)  # noqa: PTH102
    elif member.kind == "file":
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(member.path, flags, mode | 0o600)
        try:
            for chunk in tar.content():
                os.write(descriptor, chunk)
        finally:
            os.close(descriptor)
    elif member.kind == "symlink":
        os.symlink(member.target, member.path)  # noqa: PTH211
    elif member.kind == "hardlink":
        os.link(member.target, member.path)  # noqa: PTH205


def _alternative(root: Path, link: str, patterns: Sequence[str]) -> None:
    """Make `link` where it is not there, to the first file beside it that fits a pattern."""
    path = root / link
    if path.is_symlink() or path.exists() or not path.parent.is_dir():
        return
    names = sorted(entry.name for entry in path.parent.iterdir())
    for pattern in patterns:
        for name in names:
            if fnmatchcase(name, pattern):
                path.symlink_to(name)
                return
