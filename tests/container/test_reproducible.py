"""The same pins give the same digest: another folder, cache, umask, locale, time zone, host name, number of processes
and user, everything made anew. Slow (a cold build each), and the reason for all the rest.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.cli.common import ROOT, cache_home
from slipway.host import process
from slipway.lock import file
from tests.container import builds

USER = "slipway-test"


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of an ordinary build on this machine."""
    ended = builds.run("build", "--output", str(tmp_path_factory.mktemp("ordinary")))
    assert ended.code == 0, ended.said
    found: str = ended.document["digest"]
    return found


def store() -> Path:
    return Path(os.environ.get("SLIPWAY_STORE") or cache_home() / "store")


def test_as_root_with_everything_else_different(digest: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another host name takes root")
    place = tmp_path / "an other, longer place"
    words = ["build", "--json", "--jobs", "1", "--cache", str(place / "cache"), "--output", str(place / "out")]
    shell = 'hostname elsewhere.example && umask 077 && exec "$@"'
    done = subprocess.run(
        ["unshare", "--uts", "sh", "-c", shell, "sh", *builds.command(*words)],
        env={**os.environ, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert digest in done.stdout


@pytest.fixture
def user() -> Iterator[str]:
    """A user with subordinate ids, removed afterwards."""
    if os.geteuid() != 0:
        pytest.skip("making a user takes root")
    if process.which("newuidmap") is None:
        pytest.skip("not run: uidmap is not installed, so a user can't have a Debian tree of its own")
    subprocess.run(["useradd", "--create-home", USER], check=True)
    try:
        yield USER
    finally:
        subprocess.run(["userdel", "--remove", USER], check=False, capture_output=True)


def test_as_a_user_in_namespaces(digest: str, user: str) -> None:
    python = Path("/usr/bin/python3")
    new_enough = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
    if subprocess.run([python, "-c", new_enough], check=False).returncode:
        pytest.skip("not run: no Python of at least 3.11 with venv that every user may run")
    home = Path(pwd.getpwnam(user).pw_dir)
    checkout = home / "checkout"
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    mine = home / ".cache/slipway/store"
    for artifact in file.read(ROOT / "locks/2.60-cpu-amd64.toml").artifacts:
        path = store() / "sha256" / artifact.sha256[:2] / artifact.sha256
        if path.exists():  # what a layer cache made unnecessary is not there
            target = mine / path.relative_to(store())
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    subprocess.run(["chown", "-R", f"{user}:", str(home)], check=True)
    script = f"umask 027; cd {checkout} && exec {python} build.py build --json --output {home}/out"
    done = subprocess.run(
        ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--reset-env", "sh", "-c", script],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if done.returncode == 3 and "namespace" in done.stderr:
        pytest.skip(f"not run: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    assert digest in done.stdout
