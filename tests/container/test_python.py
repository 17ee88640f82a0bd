"""The Python environment: a real venv over Debian's Python, everything importable without a network."""

from __future__ import annotations

import json

import pytest
import testinfra

from tests.container.docker import Docker

pytestmark = pytest.mark.needs("python")

SHIPPED = ("numpy/distutils/__pycache__/conv_template.cpython-311.pyc",)
"""Byte-code that is in a wheel as its authors published it."""

IMPORTS = ["ray", "ray.serve", "ray.serve.llm", "vllm", "nixl", "torch", "serve_app", "transformers"]


@pytest.fixture(scope="module")
def imported(docker: Docker) -> dict[str, str]:
    """Module → "" or why it can't be imported; all in one process, because each import of torch takes its seconds."""
    code = f"""
import importlib, json, traceback
found = {{}}
for name in {IMPORTS!r}:
    try:
        importlib.import_module(name)
        found[name] = ""
    except BaseException:
        found[name] = traceback.format_exc()
print(json.dumps(found))
"""
    found: dict[str, str] = json.loads(docker.python(code, timeout=600).splitlines()[-1])
    return found


@pytest.mark.needs("ray", "vllm", "nixl", "torch", "serve_app")
@pytest.mark.parametrize("module", IMPORTS)
def test_it_can_be_imported(imported: dict[str, str], module: str) -> None:
    assert imported[module] == ""


@pytest.mark.needs("vllm")
def test_vllm_has_metadata_under_its_own_name(docker: Docker) -> None:
    code = "import importlib.metadata as m; import vllm; print(m.version('vllm')); print(vllm.__version__)"
    metadata, own = docker.python(code).split()[-2:]
    assert metadata.partition("+")[0] == own.partition("+")[0]


def test_it_is_a_real_venv(host: testinfra.host.Host) -> None:
    settings = host.file("/opt/venv/pyvenv.cfg").content_string
    assert "home = /usr/bin" in settings
    assert host.check_output("readlink -f /opt/venv/bin/python").startswith("/usr/bin/python3")
    code = "import sys; print(sys.prefix != sys.base_prefix, sys.prefix, sys.base_prefix)"
    assert host.check_output(f"python -c '{code}'").split() == ["True", "/opt/venv", "/usr"]
    for name in ("python", "python3", "pip", "uv"):
        assert host.check_output(f"command -v {name}") == f"/opt/venv/bin/{name}"


def test_the_venv_can_be_activated(docker: Docker) -> None:
    """Ray's runtime_env sources bin/activate of its clone before it starts a worker."""
    done = docker.run("bash", "-c", ". /opt/venv/bin/activate && echo $VIRTUAL_ENV && command -v python")
    assert done.out.split() == ["/opt/venv", "/opt/venv/bin/python"]


def test_commands_start_with_the_venvs_python(host: testinfra.host.Host) -> None:
    odd = host.check_output("head -qn1 $(grep -lI '^#!' /opt/venv/bin/*) | grep python | sort -u")
    assert set(odd.splitlines()) <= {"#!/opt/venv/bin/python", "#!/opt/venv/bin/python3"}


@pytest.mark.needs("pip")
def test_installed_files_are_what_their_records_say(docker: Docker) -> None:
    """Every file of every RECORD is there, with the size it says."""
    code = """
import importlib.metadata, json
bad, seen = [], 0
for dist in importlib.metadata.distributions():
    for file in dist.files or ():
        seen += 1
        path = file.locate()
        if not path.is_file() or (file.size is not None and path.stat().st_size != file.size):
            bad.append(f"{dist.name}: {file}")
print(json.dumps([seen, bad[:20]]))
"""
    seen, bad = json.loads(docker.python(code))
    assert bad == []
    assert seen > 1000


@pytest.mark.needs("pip")
def test_byte_code_never_depends_on_a_files_time(docker: Docker) -> None:
    """Flag bits of a .pyc (PEP 552): 1 = hash-based, 3 = hash-based and checked, 0 = by the source's mtime."""
    code = """
import collections, json, os
kinds = collections.defaultdict(list)
for root in ("/opt", "/usr"):
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".pyc"):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    kinds[int.from_bytes(file.read(8)[4:], "little")].append(path)
print(json.dumps(kinds))
"""
    kinds = json.loads(docker.python(code))
    assert len(kinds.pop("1")) > 100
    odd = [path for paths in kinds.values() for path in paths if not path.endswith(SHIPPED)]
    assert odd == []


@pytest.mark.needs("torch")
def test_extensions_that_break_a_cpu_torch_are_not_there(docker: Docker) -> None:
    code = """
import torch, importlib.util
print(bool(torch.version.cuda), [name for name in ("torchvision", "triton") if importlib.util.find_spec(name)])
"""
    cuda, found = docker.python(code).strip().split(maxsplit=1)
    if cuda == "True":
        pytest.skip("its torch has CUDA")
    assert found == "[]"
