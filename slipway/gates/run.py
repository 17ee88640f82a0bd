"""Runs all gates on an image, once: results are kept by the image, the settings and the gates' own sources."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slipway.gates import (
    abi,
    budget,
    copies,
    driver,
    duplicates,
    layering,
    ldcache,
    leftovers,
    ownership,
    pth,
    runpath,
    seams,
    secrets,
    setuid,
    ssh,
    user,
    writable,
)
from slipway.gates.model import Excused, Finding, Gate, GateResult, GateSettings, Report
from slipway.inspect.image import Image, read_image
from slipway.inspect.layout import LayerRef, Layout, open_layout

GATES: tuple[Gate, ...] = (
    abi,
    ldcache,
    driver,
    copies,
    duplicates,
    layering,
    budget,
    user,
    runpath,
    setuid,
    ownership,
    writable,
    secrets,
    ssh,
    pth,
    seams,
    leftovers,
)


def run_gates(
    source: Path | Layout | Image,
    settings: GateSettings,
    *,
    cache: Path | None = None,
    jobs: int | None = None,
    architecture: str | None = None,
    done: Callable[[LayerRef], None] | None = None,
) -> Report:
    """Check an image: an OCI layout's folder, or one that was opened or read before.

    cache: folder that keeps layer indexes and results. Raises UsageError, WrongArtifact (see read_image); findings
    are returned, `Report.refuse()` raises them.
    """
    layout = (
        open_layout(source, architecture)
        if isinstance(source, Path)
        else source.layout
        if isinstance(source, Image)
        else source
    )
    kept = None if cache is None else cache / "gates" / f"{_key(layout.digest, settings)}.json"
    if kept is not None and (report := _kept(kept, layout.digest)) is not None:
        return report
    if isinstance(source, Image):
        image = source
    else:
        image = read_image(layout, cache=None if cache is None else cache / "layers", jobs=jobs, done=done)
    report = check_image(image, settings)
    if kept is not None:
        _keep(kept, report)
    return report


def check_image(image: Image, settings: GateSettings, gates: Sequence[Gate] = GATES) -> Report:
    """All gates on an image at hand. Excuses that excuse nothing are warnings: they should not outlive their reason."""
    return Report(image.layout.digest, tuple(_result(gate, image, settings) for gate in gates))


def _result(gate: Gate, image: Image, settings: GateSettings) -> GateResult:
    findings: list[Finding] = []
    excused: list[Excused] = []
    used: set[str] = set()
    for finding in sorted(gate.check(image, settings), key=lambda f: (f.subject, f.what)):
        if finding.severity == "error" and image.is_given(finding.subject.partition(" needs ")[0]):
            # What a base holds is its maker's affair: told, and no reason to refuse ours.
            finding = replace(finding, what=f"{finding.what} (from the base)", severity="warning")
        excuse = settings.excuse(gate.NAME, finding.subject) if finding.severity != "note" else None
        if excuse is None:
            findings.append(finding)
        else:
            used.add(excuse[0])
            excused.append(Excused(finding, excuse[1]))
    for pattern in settings.excuses.get(gate.NAME, {}):
        if pattern not in used:
            findings.append(
                Finding(
                    pattern,
                    f"an excuse of gate {gate.NAME} matches nothing in this image",
                    "it could let something through later that nobody has looked at",
                    "remove it from versions.toml",
                    "warning",
                )
            )
    return GateResult(gate.NAME, gate.PROVES, tuple(findings), tuple(excused))


@functools.cache
def version() -> str:
    """Names the gates' behaviour in keys: the digest of their sources and of what reads images."""
    digest = hashlib.sha256()
    gates = Path(__file__).parent
    for path in sorted([*gates.glob("*.py"), *gates.with_name("inspect").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _key(image: str, settings: GateSettings) -> str:
    return hashlib.sha256(f"{image}\n{settings.checksum}\n{version()}".encode()).hexdigest()


def _kept(path: Path, image: str) -> Report | None:
    try:
        report = Report.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return report if report.image == image else None


def _keep(path: Path, report: Report) -> None:
    """Best effort, like the indexes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            json.dump(report.as_json(), file)
        Path(file.name).replace(path)
    except OSError:
        return
