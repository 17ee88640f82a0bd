"""Runs other programs: an allow-listed environment, output kept, failures told with what the program said last.

A variable of the caller's shell reaches a subprocess only when it stands here, so that a build does not depend on
what somebody exported for another purpose (PYTHONPATH, LD_PRELOAD, TAR_OPTIONS, GREP_COLORS, …).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import BuildFailed, MissingError, SlipwayError
from slipway.host.packages import BY_COMMAND

BASE = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
NETWORK = (
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC"),
)
DOCKER = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION"),
    *("SSH_AUTH_SOCK", "AWS_PROFILE", "AWS_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
)
FIXED = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
"""One language, so that messages can be read by programs; no time zone and no umask is set here."""

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True)
class Result:
    """How a program ended: exit code (negative: killed by that signal) and what it wrote."""

    code: int
    out: str
    err: str


def environment(names: Iterable[str] = (), values: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a subprocess: BASE, NETWORK and `names` of ours where they are set, then `values`.

    A name that ends in `*` stands for all that start so (`PIP_*`).
    """
    wanted = (*BASE, *NETWORK, *names)
    exact = {name for name in wanted if not name.endswith("*")}
    starts = tuple(name[:-1] for name in wanted if name.endswith("*"))
    ours = {name: value for name, value in os.environ.items() if name in exact or (starts and name.startswith(starts))}
    ours["PATH"] = search_path()
    return {**ours, **FIXED, **(values or {})}


def search_path() -> str:
    """PATH with the system's folders at its end: /usr/sbin is missing from many users' PATH, also root's after `su`."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    return os.pathsep.join([*folders, *(folder for folder in SYSTEM_PATH if folder not in folders)])


def which(command: str) -> Path | None:
    """Where a program is, or None."""
    found = shutil.which(command, path=search_path())
    return None if found is None else Path(found)


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    pass_names: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    data: bytes | None = None,
    timeout: float | None = None,
    check: bool = True,
    error: type[SlipwayError] = BuildFailed,
    remedy: str | None = None,
    pass_fds: Sequence[int] = (),
) -> Result:
    """Run a program to its end and return what it wrote.

    timeout is in seconds. Raises MissingError when the program is not installed; with `check`, raises `error` when
    it fails or takes too long, showing the end of its output and `remedy`.
    """
    words = [os.fspath(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env=environment(pass_names, env),
            cwd=cwd,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout,
            pass_fds=pass_fds,
            check=False,
        )
    except FileNotFoundError as problem:
        if problem.filename not in (None, words[0]):
            raise
        raise missing(words[0]) from problem
    except PermissionError as problem:
        raise MissingError(f"{words[0]} may not be run here", where=words[0], why=str(problem)) from problem
    except subprocess.TimeoutExpired as problem:
        raise error(
            f"{Path(words[0]).name} did not end within {timeout:g} s", where=" ".join(words), remedy=remedy
        ) from problem
    result = Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    if check and result.code != 0:
        raise error(failure(words, result), where=" ".join(words), remedy=remedy)
    return result


def failure(words: Sequence[str], result: Result) -> str:
    """One sentence on how a program failed, then the last lines it wrote."""
    how = f"exit code {result.code}" if result.code >= 0 else f"killed by signal {-result.code}"
    said = last_lines(result.err or result.out)
    return f"{Path(words[0]).name} failed: {how}" + (f"\n{said}" if said else "")


def last_lines(text: str, count: int = 15) -> str:
    """The end of a program's output, indented for a message."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(f"    | {line}" for line in lines[-count:])


def missing(command: str) -> MissingError:
    """The error for a program that is not there, with the package that brings it where that is known."""
    tool = BY_COMMAND.get(Path(command).name)
    return MissingError(
        f"{command} is not installed",
        why=None if tool is None else tool.why,
        remedy=None if tool is None else f"apt-get install {tool.package}",
    )
