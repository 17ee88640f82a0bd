"""Makes small ELF files, layers and OCI layouts, so that the tests need no compiler and no container engine."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

SITE = "opt/venv/lib/python3.11/site-packages"


def elf(
    *,
    soname: str = "",
    needed: Sequence[str] = (),
    rpath: str = "",
    runpath: str = "",
    needs: Mapping[str, Sequence[str]] | None = None,
    weak: Sequence[str] = (),
    defines: Sequence[str] = (),
    interpreter: str = "",
    build_id: bytes = b"",
    machine: int = 62,
    kind: int = 3,
    bits: int = 64,
    little: bool = True,
    flags_1: int = 0,
    padding: int = 0,
) -> bytes:
    """An ELF file that says these things to a dynamic loader and has no code. One segment holds the whole file."""
    order, wide = "<" if little else ">", bits == 64
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text.encode()) - 1

    dynamic: list[tuple[int, int]] = [(1, string(name)) for name in needed]
    if soname:
        dynamic.append((14, string(soname)))
    if rpath:
        dynamic.append((15, string(rpath)))
    if runpath:
        dynamic.append((29, string(runpath)))
    if flags_1:
        dynamic.append((0x6FFFFFFB, flags_1))
    verneed = b""
    for number, (library, versions) in enumerate((needs or {}).items()):
        last = number == len(needs or {}) - 1
        head = struct.pack(
            order + "HHIII", 1, len(versions), string(library), 16, 0 if last else 16 + 16 * len(versions)
        )
        aux = b"".join(
            struct.pack(
                order + "IHHII",
                0,
                2 if version in weak else 0,
                2,
                string(version),
                0 if index == len(versions) - 1 else 16,
            )
            for index, version in enumerate(versions)
        )
        verneed += head + aux
    verdef = b""
    names = [soname or "base", *defines] if defines else []
    for index, version in enumerate(names):
        following = 0 if index == len(names) - 1 else 28
        verdef += struct.pack(order + "HHHHIII", 1, 1 if index == 0 else 0, index + 1, 1, 0, 20, following)
        verdef += struct.pack(order + "II", string(version), 0)
    note = struct.pack(order + "III", 4, len(build_id), 3) + b"GNU\0" + build_id if build_id else b""
    segment_size, head_size = (56, 64) if wide else (32, 52)
    count = 2 + bool(interpreter) + bool(note)
    at = head_size + segment_size * count
    places: dict[str, tuple[int, int]] = {}
    body = bytearray()
    for name, content in (
        ("strings", bytes(strings)),
        ("verneed", verneed),
        ("verdef", verdef),
        ("note", note),
        ("interpreter", interpreter.encode() + b"\0" if interpreter else b""),
    ):
        body += bytes(-len(body) % 8)
        places[name] = (at + len(body), len(content))
        body += content
    dynamic += [(5, places["strings"][0]), (10, len(strings))]
    if verneed:
        dynamic += [(0x6FFFFFFE, places["verneed"][0]), (0x6FFFFFFF, len(needs or {}))]
    if verdef:
        dynamic += [(0x6FFFFFFC, places["verdef"][0]), (0x6FFFFFFD, len(names))]
    dynamic.append((0, 0))
    body += bytes(-len(body) % 8)
    places["dynamic"] = (at + len(body), len(dynamic) * (16 if wide else 8))
    body += b"".join(struct.pack(order + ("qQ" if wide else "iI"), *entry) for entry in dynamic)
    body += bytes(padding)
    total = at + len(body)
    segments = [(1, 0, total), (2, *places["dynamic"])]
    if interpreter:
        segments.append((3, *places["interpreter"]))
    if note:
        segments.append((4, *places["note"]))
    head = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2, 1]) + bytes(9)
    head += struct.pack(
        order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
        kind, machine, 1, 0, head_size, 0, 0, head_size, segment_size, count, 0, 0, 0,
    )  # fmt: skip
    table = b"".join(
        struct.pack(order + "IIQQQQQQ", what, 5, offset, offset, offset, size, size, 8)
        if wide
        else struct.pack(order + "IIIIIIII", what, offset, offset, offset, size, size, 5, 8)
        for what, offset, size in segments
    )
    return head + table + bytes(body)


@dataclass
class Item:
    """A member of a layer; content makes a file, target a symlink, neither a directory."""

    content: bytes | None = None
    target: str = ""
    mode: int | None = None
    uid: int = 0
    gid: int = 0
    hard: bool = False
    kind: bytes | None = None
    xattrs: dict[str, str] = field(default_factory=dict)


def tar(members: Mapping[str, Item | bytes | str | None], *, format: int = tarfile.PAX_FORMAT) -> bytes:
    """bytes → file, text → symlink, None → directory, Item → as it says. Python's own writer, on purpose."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for path, value in members.items():
            item = (
                value
                if isinstance(value, Item)
                else Item(content=value)
                if isinstance(value, bytes)
                else Item(target=value)
                if isinstance(value, str)
                else Item()
            )
            info = tarfile.TarInfo(path)
            info.uid, info.gid = item.uid, item.gid
            info.pax_headers = {f"SCHILY.xattr.{name}": text for name, text in item.xattrs.items()}
            if item.content is not None:
                info.size, info.mode = len(item.content), 0o644
            elif item.target:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, item.target, 0o777
                if item.hard:
                    info.type = tarfile.LNKTYPE
            else:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            if item.kind is not None:
                info.type = item.kind
            if item.mode is not None:
                info.mode = item.mode
            archive.addfile(info, io.BytesIO(item.content or b""))
    return out.getvalue()


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layout(
    folder: Path,
    layers: Sequence[Mapping[str, Item | bytes | str | None] | bytes],
    *,
    names: Sequence[str] = (),
    architecture: str = "amd64",
    config: Mapping[str, object] | None = None,
    compress: str = "zstd",
    history: Sequence[Mapping[str, str]] = (),
) -> Path:
    """An OCI layout of these layers (members, or tar bytes). names: what the layers are called."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def put(content: bytes) -> dict[str, object]:
        digest = sha256(content)
        (blobs / digest.removeprefix("sha256:")).write_bytes(content)
        return {"digest": digest, "size": len(content)}

    descriptors, diff_ids = [], []
    for number, layer in enumerate(layers):
        plain = layer if isinstance(layer, bytes) else tar(layer)
        diff_ids.append(sha256(plain))
        descriptor = put(compressed(plain, compress))
        descriptor["mediaType"] = "application/vnd.oci.image.layer.v1.tar+" + compress
        if number < len(names):
            descriptor["annotations"] = {"io.slipway.layer": names[number]}
        descriptors.append(descriptor)
    document = {
        "architecture": architecture,
        "os": "linux",
        "config": {"User": "1000:0", **(config or {})},
        "history": list(history),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    manifest = put(
        json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {
                    "mediaType": "application/vnd.oci.image.config.v1+json",
                    **put(json.dumps(document).encode()),
                },
                "layers": descriptors,
            }
        ).encode()
    )
    manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return folder


def compressed(plain: bytes, how: str) -> bytes:
    if how == "zstd":
        return zstandard.ZstdCompressor().compress(plain)
    if how == "gzip":
        import gzip

        return gzip.compress(plain)
    return plain


def wheel(name: str, version: str, files: Mapping[str, bytes]) -> dict[str, Item | bytes | str | None]:
    """Members of a venv's site-packages as pip leaves them: files, METADATA and RECORD."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/METADATA", f"{info}/RECORD"])
    inside = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText.\n".encode(),
        f"{info}/RECORD": record.encode(),
    }
    return {f"{SITE}/{path}": content for path, content in inside.items()}


def ld_cache(entries: Mapping[str, str]) -> bytes:
    """/etc/ld.so.cache in glibc's newer form."""
    strings, table = bytearray(), []
    start = 48 + 24 * len(entries)
    for name, path in entries.items():
        at = start + len(strings)
        strings += name.encode() + b"\0" + path.encode() + b"\0"
        table.append(struct.pack("<iIIIQ", 3, at, at + len(name.encode()) + 1, 0, 0))
    head = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI3I", len(entries), len(strings), 2, 0, 0, 0, 0)
    return head + b"".join(table) + bytes(strings)
