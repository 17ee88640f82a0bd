"""Stops an image with known vulnerabilities: fixable critical or high ones that docker/vulnerabilities.toml does not
allow. Exit code 6; also when an entry of that list has expired, and when there is no data.

Data comes from reports (--report: JSON of trivy, grype, pip-audit, or ECR's describe-image-scan-findings) and, where
the program pip-audit is installed and reaches its service, from that for the lock's wheels.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slipway import lock as locks
from slipway.cli import common
from slipway.errors import GateRefused
from slipway.host import process
from slipway.lock import file
from slipway.pins import load
from slipway.vulnerabilities.model import NoData, Report, Verdict, judge, read_allowed
from slipway.vulnerabilities.readers import parse, read_report

HELP = "stop an image with known vulnerabilities, by scanners' reports"
ALLOWED = Path("docker") / "vulnerabilities.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_selection(parser)
    parser.add_argument(
        "--report", action="append", type=Path, default=[], metavar="FILE", help="a scanner's JSON (repeatable)"
    )
    parser.add_argument("--digest", metavar="sha256:…", help="the image that the reports have to be about")
    parser.add_argument(
        "--allow", type=Path, default=common.ROOT / ALLOWED, metavar="FILE", help="the allow-list (%(default)s)"
    )
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    today = datetime.datetime.now(datetime.UTC).date()
    allowed = read_allowed(args.allow, today)
    reports = [read_report(path) for path in args.report]
    for report in reports:
        if args.digest and report.digest and report.digest != args.digest:
            raise NoData(f"the report is about {report.digest}, not about {args.digest}", report.source)
    if not reports or process.which("pip-audit"):
        reports.append(pip_audit(args))
    verdict = judge(reports, allowed, today)
    if args.json:
        print(json.dumps(as_json(verdict, reports), indent=2))
    else:
        print(text(verdict, reports))
    if not verdict.ok:
        lines = [f"  {finding}" for finding in verdict.blocking]
        lines += [f"  the entry {entry.id} ended on {entry.until}: {entry.reason}" for entry in verdict.expired]
        raise GateRefused(
            f"{len(verdict.blocking)} vulnerabilities that could be fixed, {len(verdict.expired)} expired entries\n"
            + "\n".join(lines),
            remedy="bump what is affected (build.py lock --upgrade NAME); or say in docker/vulnerabilities.toml why it "
            "is no danger here, and until when",
        )
    return 0


def pip_audit(args: argparse.Namespace) -> Report:
    """pip-audit on the wheels of the lock. Raises NoData where it is not installed or can't reach its service."""
    if process.which("pip-audit") is None:
        raise NoData("no report was given, and pip-audit is not installed")
    selection = load(common.ROOT / "versions.toml").select(args.release, args.variant, args.arch)
    lock = file.read(locks.path(selection.release, selection.variant, selection.arch))
    with tempfile.TemporaryDirectory(prefix="slipway-audit-") as folder:
        requirements = Path(folder) / "requirements.txt"
        lines = [f"{wheel.name}=={wheel.version.partition('+')[0]}\n" for wheel in lock.wheels]
        requirements.write_text("".join(lines))
        words: list[str | Path] = [
            "pip-audit",
            "--requirement",
            requirements,
            "--no-deps",
            "--disable-pip",
            "--format",
            "json",
        ]
        done = process.run([*words, "--progress-spinner", "off"], check=False, timeout=600)
    try:
        return parse(json.loads(done.out), "pip-audit on the lock")
    except ValueError:
        raise NoData(f"pip-audit did not get any: {process.last_lines(done.err, 3).strip()}") from None


def as_json(verdict: Verdict, reports: Sequence[Report]) -> dict[str, object]:
    return {
        "ok": verdict.ok,
        "reports": [{"source": r.source, "scanner": r.scanner, "findings": len(r.findings)} for r in reports],
        "blocking": [vars(finding) for finding in verdict.blocking],
        "allowed": [vars(finding) for finding in verdict.allowed],
        "expired": [{**vars(entry), "until": str(entry.until)} for entry in verdict.expired],
        "unused": [entry.id for entry in verdict.unused],
        "not_blocking": len(verdict.rest),
    }


def text(verdict: Verdict, reports: Sequence[Report]) -> str:
    """The verdict for people."""
    lines = [f"{report.scanner}: {len(report.findings)} findings ({report.source})" for report in reports]
    lines += [f"  allowed: {finding}" for finding in verdict.allowed]
    lines += [f"  allows nothing any more: {entry.id}, until {entry.until}" for entry in verdict.unused]
    lines.append(f"{len(verdict.blocking)} stop the image, {len(verdict.rest)} don't (no fix yet, or not high)")
    return "\n".join(lines)
