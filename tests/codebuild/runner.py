"""Runs a buildspec as CodeBuild does (https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html).

One shell and environment across all phases; a phase ends at its first failing command; `finally` runs whatever came
before it; post_build runs after a failed build unless that phase says ABORT; reports, artifacts and exported variables
are gathered at the end, also of a failed build. The environment given wins over the buildspec's variables.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PHASES = ("install", "pre_build", "build", "post_build")
TOP = {"version", "env", "batch", "phases", "reports", "artifacts", "cache", "proxy", "run-as"}
OF_A_PHASE = {"commands", "finally", "on-failure", "runtime-versions", "run-as", "steps"}


@dataclass
class Build:
    """What a build left. phases: name → "SUCCEEDED", "FAILED" or "SKIPPED"; ran: every command with its exit code."""

    succeeded: bool = True
    phases: dict[str, str] = field(default_factory=dict)
    ran: list[tuple[str, int]] = field(default_factory=list)
    output: str = ""
    exported: dict[str, str] = field(default_factory=dict)
    artifacts: list[Path] = field(default_factory=list)
    reports: dict[str, list[Path]] = field(default_factory=dict)
    cached: list[Path] = field(default_factory=list)


def read(path: Path) -> dict[str, Any]:
    """A buildspec whose keys are CodeBuild's; ValueError for others."""
    document: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    wrong = set(document) - TOP
    for name, phase in document["phases"].items():
        wrong |= {f"{name}.{key}" for key in set(phase) - OF_A_PHASE}
        wrong |= {name} - set(PHASES)
        if not all(isinstance(command, str) for command in phase["commands"]):
            raise ValueError(f"{name}: a command is not a string")
        if phase.get("on-failure") not in (None, "ABORT", "CONTINUE"):
            wrong.add(f"{name}.on-failure")
    if wrong:
        raise ValueError(f"unknown to CodeBuild: {', '.join(sorted(wrong))}")
    return document


class Shell:
    """One bash that runs command after command."""

    def __init__(self, folder: Path, environ: Mapping[str, str], log: Path) -> None:
        ours, theirs = os.pipe()
        self._results = os.fdopen(ours, "r")
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs],
        )
        self._fd = theirs

    def run(self, command: str) -> int:
        """The command's exit code; a command that ends the shell itself has failed."""
        assert self._process.stdin is not None
        code = f"{{ {command}\n}} </dev/null\necho $? >&{self._fd}\n"
        if "exit" in command.split():
            code = f"( {command}\n) </dev/null\necho $? >&{self._fd}\n"
        self._process.stdin.write(code.encode())
        self._process.stdin.flush()
        return int(self._results.readline())

    def value(self, name: str) -> str:
        """A variable of the shell."""
        assert self._process.stdin is not None
        self._process.stdin.write(f'printf "%s\\n" "${{{name}-}}" >&{self._fd}\n'.encode())
        self._process.stdin.flush()
        return self._results.readline().rstrip("\n")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        os.close(self._fd)
        self._results.close()
        self._log.close()


def run(spec: Path, source: Path, environ: Mapping[str, str], log: Path) -> Build:
    """Run all phases in `source`."""
    document = read(spec)
    variables = {name: str(value) for name, value in ((document.get("env") or {}).get("variables") or {}).items()}
    codebuild = {
        "CODEBUILD_BUILD_ARN": "arn:aws:codebuild:us-west-2:123456789012:build/slipway:1",
        "CODEBUILD_BUILD_ID": "slipway:1",
        "CODEBUILD_BUILD_SUCCEEDING": "1",
        "CODEBUILD_RESOLVED_SOURCE_VERSION": "0" * 40,
        "CODEBUILD_SRC_DIR": str(source),
        "CODEBUILD_BATCH_BUILD_IDENTIFIER": "one",
        "CI": "true",
    }
    build = Build()
    shell = Shell(source, {**codebuild, **variables, **environ}, log)
    try:
        aborted = False
        for name in PHASES:
            phase = document["phases"].get(name)
            if phase is None:
                continue
            if aborted or (not build.succeeded and name != "post_build"):
                build.phases[name] = "SKIPPED"
                continue
            good = _phase(shell, phase, build)
            build.phases[name] = "SUCCEEDED" if good else "FAILED"
            if not good:
                build.succeeded = False
                shell.run("export CODEBUILD_BUILD_SUCCEEDING=0")
                # Without on-failure a failed install or pre_build ends the build, a failed build goes on to post_build.
                aborted = phase.get("on-failure", "CONTINUE" if name == "build" else "ABORT") == "ABORT"
        for name in (document.get("env") or {}).get("exported-variables") or []:
            build.exported[name] = shell.value(name)
    finally:
        shell.close()
    _gather(document, source, build)
    build.output = log.read_text(errors="replace")
    return build


def _phase(shell: Shell, phase: Mapping[str, Any], build: Build) -> bool:
    good = True
    for command in phase["commands"]:
        code = shell.run(command)
        build.ran.append((command, code))
        if code != 0:
            good = False
            break
    for command in phase.get("finally") or []:
        code = shell.run(command)
        build.ran.append((command, code))
        good = good and code == 0
    return good


def _gather(document: Mapping[str, Any], source: Path, build: Build) -> None:
    for pattern in (document.get("artifacts") or {}).get("files") or []:
        build.artifacts += sorted(source.glob(pattern))
    for name, report in (document.get("reports") or {}).items():
        build.reports[name] = [path for pattern in report["files"] for path in sorted(source.glob(pattern))]
    for pattern in (document.get("cache") or {}).get("paths") or []:
        build.cached += list(source.glob(pattern.removesuffix("/*")))
