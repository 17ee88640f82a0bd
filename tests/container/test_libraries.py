"""Shared libraries: one of each kind, and ld.so finds them without help."""

from __future__ import annotations

import pytest
import testinfra

from tests.container.docker import Docker


@pytest.mark.parametrize("name", ["libfabric", "libcudart", "libnccl"])
def test_there_is_one_at_most(root_host: testinfra.host.Host, name: str) -> None:
    """Two of a kind in one process corrupt each other; which one is loaded first is luck."""
    found = root_host.check_output(
        f"find / -xdev -type f -name '{name}*.so*' -not -path '/proc/*' | xargs -r readlink -f | sort -u"
    )
    paths = [path for path in found.splitlines() if not path.endswith(".py")]
    assert len(paths) <= 1, paths


@pytest.mark.needs("fabric")
def test_ld_so_finds_libfabric_by_itself(docker: Docker) -> None:
    assert docker.run("sh", "-c", "echo ${LD_LIBRARY_PATH-unset}").out.strip() == "unset"
    code = """
import ctypes
ctypes.CDLL("libfabric.so.1")
print([line.split()[-1] for line in open("/proc/self/maps") if "libfabric" in line][0])
"""
    options = ("--network", "none", "--env", "LD_LIBRARY_PATH=")
    assert docker.python(code, options=options).strip().startswith("/opt/amazon/efa/")


@pytest.mark.needs("fabric")
def test_fi_info_lists_tcp(docker: Docker) -> None:
    """Needs an interface other than lo, so it runs on the bridge."""
    assert "provider: tcp" in docker.run("fi_info", "-p", "tcp", options=()).out


@pytest.mark.needs("nixl", "fabric")
@pytest.mark.parametrize("backend", ["UCX", "LIBFABRIC"])
def test_nixl_creates_its_backend(docker: Docker, backend: str) -> None:
    """With one libibverbs and one libnl in the process, and a clean end: UCX's rdmacm and efa modules bring Debian's
    copies beside the wheel's own, and the process then dies of SIGSEGV in libnl-route's destructor.
    """
    code = f"""
import re
from nixl._api import nixl_agent, nixl_agent_config
agent = nixl_agent("test", nixl_agent_config(backends=[{backend!r}]))
print("made", sorted(agent.backends))
files = {{line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if ".so" in line}}
for name in ("libibverbs", "libnl-3", "libnl-route-3"):
    print(name, len([file for file in files if re.match(name + "[-.]", file)]))
"""
    said = docker.run("python", "-", options=(), data=code.encode(), check=False)
    assert f"made ['{backend}']" in said.out, said.err
    assert "2" not in said.out.split("]", 1)[1].split(), said.out
    assert said.code == 0, said


def test_every_library_of_the_fabric_finds_its_own(root_host: testinfra.host.Host) -> None:
    found = root_host.run("find /opt/amazon -type f -name '*.so*' -exec ldd {} + 2>/dev/null | grep 'not found'")
    assert found.stdout == ""
