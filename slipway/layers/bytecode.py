"""Byte-code of the modules that an image really imports, ready when its processes start.

Which modules is a committed list, docker/bytecode/<release>-<variant>.txt: one path a line, relative to site-packages
("ray/serve/__init__.py"), "#" begins a comment. No list: no byte-code. All modules would cost 122 MB; those that
starting the demo imports cost 38 MB and halve the time of every process that imports vLLM and Ray Serve.

The files are unchecked-hash .pyc (PEP 552): they hold no time, and importing does not look at the source's date, which
every layer sets to the same. Compiled by the image's own Python (slipway.layers.image_python), once per wheel:

    <cache>/bytecode/ab/<key>.zst     zstd of: one JSON line with names, sizes and what was skipped; then the files
"""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from slipway.errors import BuildFailed, InvalidInput, Problem
from slipway.host.replace import write_whole
from slipway.layers.image_python import DebStore, ImagePython, image_python
from slipway.layers.key import layer_key
from slipway.lock.model import Deb, Wheel
from slipway.wheel.content import OpenWheel
from slipway.wheel.index import WheelIndex
from slipway.wheel.install import File
from slipway.wheel.paths import Venv

FORMAT = 1
"""Raise it when the same source would give another .pyc."""

_PROGRAM = Path(__file__).with_name("compile_program.py")
_QUESTION = struct.Struct("<II")
_ANSWER = struct.Struct("<BI")


@dataclass(frozen=True)
class Bytecode:
    """What is compiled, and with what.

    debs:    the packages of the image's Python (image_python.python_debs)
    modules: paths below site-packages
    """

    debs: tuple[Deb, ...] = ()
    modules: frozenset[str] = frozenset()

    def by_wheel(
        self,
        indexes: Mapping[Wheel, WheelIndex],
        ceded: Mapping[str, Mapping[str, str]],
        venv: Venv,
    ) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Wheel's name → its modules' paths in the image, sorted; and the lines of the list that name no module."""
        left = {f"{venv.site}/{module}" for module in self.modules}
        found: dict[str, tuple[str, ...]] = {}
        if not left:
            return found, []
        for wheel, index in indexes.items():
            own = sorted(
                path
                for path in left & index.files.keys()
                if path not in ceded.get(wheel.name, ())
                and pyc_path(path, venv) not in index.files
                and not index.files[path].startswith("->")
            )
            if own:
                found[wheel.name] = tuple(own)
        known = {path for index in indexes.values() for path in left & index.files.keys()}
        return found, sorted(path.removeprefix(f"{venv.site}/") for path in left - known)

    def inputs(self, modules: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """What a layer's key has to say of the byte-code in it."""
        return {
            "format": FORMAT,
            "python": [deb.sha256 for deb in self.debs],
            "modules": {name: list(paths) for name, paths in modules.items() if paths},
        }

    def for_modules(self, modules: Mapping[str, Collection[str]]) -> Bytecode:
        """The same without the list, which building a layer does not need; nothing where no module is left."""
        return Bytecode(self.debs) if any(modules.values()) else NO_BYTECODE


NO_BYTECODE = Bytecode()


@dataclass(frozen=True)
class Compiled:
    """files: path of a .pyc in the image → content; skipped: path of a module → why it has none."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)


def read_list(path: Path) -> frozenset[str]:
    """The modules of a list; none when there is no such file. Raises InvalidInput with all that is wrong in it."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return frozenset()
    modules: set[str] = set()
    problems = []
    for number, line in enumerate(lines, 1):
        module = line.partition("#")[0].strip()
        if not module:
            continue
        if module.startswith("/") or not module.endswith(".py") or any(p in ("", ".", "..") for p in module.split("/")):
            problems.append(Problem(str(path), number, f"{module!r} is no path of a module below site-packages"))
        modules.add(module)
    if problems:
        raise InvalidInput("the byte-code list is not in order", problems)
    return frozenset(modules)


def dump_list(modules: Iterable[str], comment: str) -> str:
    """A list's text: sorted, so that two runs give one diff."""
    return "".join(
        [f"# {line}\n" for line in comment.splitlines()] + [f"{module}\n" for module in sorted(set(modules))]
    )


def pyc_path(path: str, venv: Venv) -> str:
    """Where Python looks for the byte-code of `path` (PEP 3147)."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{venv.cache_tag}.pyc"


def compiled(
    wheel: OpenWheel, modules: Collection[str], bytecode: Bytecode, store: DebStore, cache_root: Path
) -> Compiled:
    """The byte-code of a wheel's modules, from the cache or made now. `modules` are paths in the image."""
    if not modules:
        return Compiled()
    inputs = {"wheel": wheel.wheel.sha256, "venv": wheel.venv.site, **bytecode.inputs({"": tuple(sorted(modules))})}
    key = layer_key("bytecode", inputs)
    path = cache_root / "bytecode" / key[:2] / f"{key}.zst"
    if (found := _load(path)) is not None:
        return found
    wanted = set(modules)
    files = [file for file in wheel.files if file.path in wanted]
    python = image_python(bytecode.debs, wheel.venv.python, store, cache_root)
    made = _compile(wheel, files, python)
    _save(path, made)
    return made


def _compile(wheel: OpenWheel, files: Iterable[File], python: ImagePython) -> Compiled:
    result: dict[str, bytes] = {}
    skipped: dict[str, str] = {}
    with compiler(python) as ask:
        for file in files:
            ok, answer = ask(f"/{file.path}", wheel.read(file))
            if ok:
                result[pyc_path(file.path, wheel.venv)] = answer
            else:
                skipped[file.path] = answer.decode("utf-8", "replace")
    return Compiled(result, skipped)


class Compiler:
    """A running image Python that compiles what it is asked."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __call__(self, name: str, source: bytes) -> tuple[bool, bytes]:
        """(True, .pyc) or (False, why there is none). `name` is the module's path in the image, from its root."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a compiler without pipes")
        raw = name.encode()
        try:
            stdin.write(_QUESTION.pack(len(raw), len(source)) + raw + source)
            stdin.flush()
            head = stdout.read(_ANSWER.size)
            status, length = _ANSWER.unpack(head)
            answer = stdout.read(length)
        except (BrokenPipeError, struct.error) as error:
            raise BuildFailed(
                f"the image's Python ended with code {self._process.wait()} while compiling",
                where=name,
                remedy="remove the folder python in the cache, where it was unpacked, and build again",
            ) from error
        return status == 0, answer


@contextlib.contextmanager
def compiler(python: ImagePython) -> Iterator[Compiler]:
    """Start the image's Python to compile with; it ends with the block."""
    process = subprocess.Popen(
        python.argv(_PROGRAM.read_text("utf-8")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=python.environment(),
        cwd="/",
    )
    try:
        yield Compiler(process)
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        process.wait()


def _save(path: Path, code: Compiled) -> None:
    head = {"files": {name: len(content) for name, content in code.files.items()}, "skipped": dict(code.skipped)}
    content = json.dumps(head).encode() + b"\n" + b"".join(code.files.values())
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, compressor.compress(content))


def _load(path: Path) -> Compiled | None:
    """What was saved; a damaged file (zstd's own checksum, sizes) counts as absent."""
    try:
        head, _, content = zstandard.ZstdDecompressor().decompress(path.read_bytes()).partition(b"\n")
        document = json.loads(head)
        sizes: dict[str, int] = document["files"]
        skipped: dict[str, str] = document["skipped"]
    except (OSError, zstandard.ZstdError, ValueError, KeyError, TypeError):
        return None
    files: dict[str, bytes] = {}
    offset = 0
    for name, size in sizes.items():
        files[name] = content[offset : offset + size]
        offset += size
    return Compiled(files, skipped) if offset == len(content) else None
