"""Without the image's entrypoint: KubeRay runs `bash -c …` or `bash -lc …` instead, kubectl exec anything at all."""

from __future__ import annotations

import json

import pytest

from tests.container.docker import ARBITRARY, OFFLINE, READ_ONLY, Docker, Image

NO_ENTRYPOINT = (*OFFLINE, "--entrypoint", "")
SHELLS = {
    "bash": ("bash", "-c", "--"),
    "login bash": ("bash", "-lc", "--"),
    "bash in bash": ("bash", "-c", 'bash -c "$0"'),
}
WHO = {"ray": (), "arbitrary user": ARBITRARY, "arbitrary user, read-only root": (*ARBITRARY, *READ_ONLY)}

SCRIPT = """
import getpass, json, os, pathlib, shutil, tempfile
home = pathlib.Path.home()
print(json.dumps({
    "user": getpass.getuser(), "home": os.access(home, os.W_OK), "python": shutil.which("python"),
    "caches": [name for name in os.environ if name.endswith(("_HOME", "_CACHE_DIR", "_CACHE_ROOT"))
               and name != "HOME" and not os.environ[name].startswith(str(home))],
}))
"""


@pytest.fixture
def own(image: Image) -> Image:
    if "BASH_ENV" not in image.env:
        pytest.skip("the image has no BASH_ENV")
    return image


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_has_what_the_entrypoint_gives(own: Image, docker: Docker, shell: str, who: str) -> None:
    command = f"python -c '{SCRIPT}'"
    done = docker.run(*SHELLS[shell], command, options=(*NO_ENTRYPOINT, *WHO[who]))
    found = json.loads(done.out)
    assert found["user"]
    assert found["home"]
    assert found["python"] == "/opt/venv/bin/python"
    assert found["caches"] == []


def test_no_shell_and_a_user_without_a_name(own: Image, docker: Docker) -> None:
    """What torch and Ray ask; without USER it raises KeyError for a user id that the password file does not know."""
    code = "import getpass; print(getpass.getuser())"
    assert docker.run("python", "-c", code, options=(*NO_ENTRYPOINT, *ARBITRARY)).out.strip() == "ray"


@pytest.mark.needs("ray")
def test_a_path_of_ones_own_stays_in_front(own: Image, docker: Docker) -> None:
    """Ray activates a clone of the venv for runtime_env; a shell in it must not fall back to the image's."""
    options = (*NO_ENTRYPOINT, "--env", "PATH=/home/ray/clone/bin:/opt/venv/bin:/usr/bin:/bin")
    assert docker.run("bash", "-c", "echo $PATH", options=options).out.startswith("/home/ray/clone/bin:")
