"""torch.compile for the CPU: a C++ compiler, headers and a cache folder that any user can write to."""

from __future__ import annotations

import pytest

from tests.container.docker import ARBITRARY, OFFLINE, READ_ONLY, Docker

CODE = """
import os, torch
@torch.compile
def f(x):
    return torch.nn.functional.gelu(x @ x.T).sum(dim=1) * 2
x = torch.arange(64, dtype=torch.float32).reshape(8, 8) / 64
torch.testing.assert_close(f(x), torch.nn.functional.gelu(x @ x.T).sum(dim=1) * 2)
made = [name for _, _, names in os.walk(os.environ["TORCHINDUCTOR_CACHE_DIR"]) for name in names if ".so" in name]
print(os.getuid(), "compiled", bool(made))
"""


@pytest.mark.needs("torch", "compiler")
@pytest.mark.parametrize(
    ("options", "uid"),
    [((), "1000"), ((*ARBITRARY, *READ_ONLY), "12345")],
    ids=["ray", "arbitrary user, read-only root"],
)
def test_torch_compile_works_with_an_empty_cache(docker: Docker, options: tuple[str, ...], uid: str) -> None:
    assert docker.python(CODE, options=(*OFFLINE, *options), timeout=600).split()[-3:] == [uid, "compiled", "True"]
