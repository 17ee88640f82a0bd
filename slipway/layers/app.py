"""serve_app's wheel, made from the checkout by its build backend and re-packed: its bytes are the source's."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

from flit_core.config import ConfigError
from flit_core.wheel import WheelBuilder
from packaging.utils import parse_wheel_filename

from slipway.errors import BuildFailed
from slipway.layers.tar import MTIME
from slipway.lock.model import Wheel

_DATE = (1980, 1, 1, 0, 0, 0)


def app_wheel(project: Path) -> tuple[str, bytes]:
    """File name and bytes of the wheel of `project` (a folder with pyproject.toml).

    flit_core decides what belongs to it; the zip is written anew, stored, so that neither the zlib of this machine
    nor a checkout's mtimes or umask reach the bytes. Raises BuildFailed when the project is not in order.
    """
    packed = io.BytesIO()
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = str(MTIME)
    try:
        builder = WheelBuilder.from_ini_path(project / "pyproject.toml", packed)
        builder.build()
        name = builder.wheel_filename
    except (ConfigError, OSError, ValueError) as error:
        raise BuildFailed(
            "serve_app's wheel can't be made", where=project / "pyproject.toml", why=str(error)
        ) from error
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before
    return name, _stored(packed)


def _stored(packed: io.BytesIO) -> bytes:
    """The same members, sorted, uncompressed, with one date and plain modes."""
    out = io.BytesIO()
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for info in sorted(source.infolist(), key=lambda info: info.filename):
            member = zipfile.ZipInfo(info.filename, _DATE)
            member.create_system = 3
            member.external_attr = (0o100755 if info.external_attr >> 16 & 0o100 else 0o100644) << 16
            target.writestr(member, source.read(info))
    return out.getvalue()


def as_wheel(file: str, content: bytes) -> Wheel:
    """What a lock would say of a wheel that was made here."""
    name, version, _, _ = parse_wheel_filename(file)
    return Wheel(name, str(version), file, len(content), hashlib.sha256(content).hexdigest(), made=True)
