"""Makes wheels for tests: honest ones, and ones with any lie in them."""

from __future__ import annotations

import base64
import hashlib
import stat
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.lock.model import Wheel

Content = str | bytes


@dataclass
class Spec:
    """files: member → content; modes: member → st_mode; record: changes RECORD's rows (path, hash, size)."""

    name: str = "demo"
    version: str = "1.0"
    files: Mapping[str, Content] = field(default_factory=lambda: {"demo/__init__.py": "x = 1\n"})
    modes: Mapping[str, int] = field(default_factory=dict)
    tag: str = "py3-none-any"
    file: str = ""
    dist_info: str = ""
    metadata: str = ""
    wheel: str = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    entry_points: str = ""
    record: Callable[[list[tuple[str, str, str]]], list[tuple[str, str, str]]] = lambda rows: rows
    leave_out: tuple[str, ...] = ()
    compression: int = zipfile.ZIP_DEFLATED
    tamper: Callable[[bytes], bytes] = lambda raw: raw


def record_hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def make_wheel(folder: Path, spec: Spec | None = None, **changes: object) -> tuple[Wheel, Path]:
    """Write a wheel into `folder`; what a lock would say of it, and its path."""
    spec = spec or Spec()
    for key, value in changes.items():
        setattr(spec, key, value)
    escaped = spec.name.replace("-", "_")
    info = spec.dist_info or f"{escaped}-{spec.version}.dist-info"
    file = spec.file or f"{escaped}-{spec.version}-{spec.tag}.whl"
    members = {name: content.encode() if isinstance(content, str) else content for name, content in spec.files.items()}
    own = {
        "METADATA": spec.metadata or f"Metadata-Version: 2.1\nName: {spec.name}\nVersion: {spec.version}\n",
        "WHEEL": spec.wheel,
        "entry_points.txt": spec.entry_points,
    }
    for name, text in own.items():
        if text and name not in spec.leave_out:
            members.setdefault(f"{info}/{name}", text.encode())
    rows = [(name, record_hash(content), str(len(content))) for name, content in members.items() if name[-1:] != "/"]
    rows = spec.record([*rows, (f"{info}/RECORD", "", "")])
    if "RECORD" not in spec.leave_out:
        members[f"{info}/RECORD"] = "".join(",".join(row) + "\n" for row in rows).encode()
    path = folder / file
    with zipfile.ZipFile(path, "w", spec.compression) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.compress_type = spec.compression
            member.external_attr = spec.modes.get(name, stat.S_IFREG | 0o644) << 16
            archive.writestr(member, content)
    raw = spec.tamper(path.read_bytes())
    path.write_bytes(raw)
    return Wheel(spec.name, spec.version, file, len(raw), hashlib.sha256(raw).hexdigest()), path
