"""Who the image runs as, what that user may write to, and the world it sees: time zone, language, no ssh."""

from __future__ import annotations

import pytest
import testinfra

from tests.container.docker import ARBITRARY, OFFLINE, READ_ONLY, Container, Docker


def test_the_user_is_ray_in_group_0(host: testinfra.host.Host) -> None:
    assert host.check_output("id -u") == "1000"
    assert host.check_output("id -un") == "ray"
    assert host.check_output("id -g") == "0"


def test_home_and_caches_can_be_written_to(host: testinfra.host.Host) -> None:
    assert host.environment()["HOME"] == "/home/ray"
    for folder in ("$HOME", "$HOME/.cache", "/tmp"):
        path = host.check_output(f"mkdir -p {folder} && mktemp -p {folder} && rm -f {folder}/tmp.*")
        assert path.startswith(("/home/ray", "/tmp"))


def test_the_python_environment_belongs_to_root(host: testinfra.host.Host) -> None:
    """A process that is taken over can't change what the next one runs."""
    assert host.run("test -w /opt/venv/lib").rc != 0
    assert host.file("/opt/venv").uid == 0


@pytest.mark.parametrize("options", [(), READ_ONLY], ids=["writable root", "read-only root"])
def test_an_arbitrary_user_has_a_home_and_a_name(docker: Docker, options: tuple[str, ...]) -> None:
    code = (
        "import getpass, os, pathlib, tempfile; home = pathlib.Path.home(); (home / 'x').touch(); tempfile.mkdtemp();"
        "print(os.getuid(), os.getgid(), home.is_dir(), getpass.getuser().isalnum())"
    )
    done = docker.run("python", "-c", code, options=(*OFFLINE, *ARBITRARY, *options))
    assert done.out.split() == ["12345", "0", "True", "True"]


def test_an_arbitrary_user_can_use_the_image_users_home(docker: Docker) -> None:
    """Group 0 owns it, as OpenShift's guidelines want it."""
    done = docker.run("sh", "-c", "touch /home/ray/x && echo fine", options=(*OFFLINE, *ARBITRARY))
    assert done.out.split() == ["fine"]


def test_time_zone_and_language(docker: Docker) -> None:
    code = "import time, sys, locale; print(time.tzname[0], sys.getfilesystemencoding(), locale.getlocale()[1])"
    assert docker.python(code).split() == ["UTC", "utf-8", "UTF-8"]
    assert docker.run("sh", "-c", "echo $LANG; date +%Z").out.split() == ["C.UTF-8", "UTC"]


def test_there_is_no_ssh(root_host: testinfra.host.Host) -> None:
    assert root_host.run("command -v ssh sshd ssh-keygen").stdout == ""
    assert not root_host.file("/etc/ssh").exists


def test_the_idle_container_has_no_network(idle: Container) -> None:
    """A check of the tests themselves: what they find out offline was offline."""
    assert idle.exec("sh", "-c", "ls /sys/class/net").out.split() == ["lo"]
