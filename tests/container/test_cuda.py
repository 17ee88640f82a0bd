"""The CUDA toolkit of an image, without a GPU: what compiles kernels at run time finds all that it looks for.

As a user that the image does not know, on a read-only root: FlashInfer, DeepGEMM, tilelang and torch compile on a node
at the first request, wherever Kubernetes starts them.
"""

from __future__ import annotations

import json

import pytest

from tests.container.docker import ARBITRARY, OFFLINE, READ_ONLY, Docker

pytestmark = pytest.mark.needs("cuda toolkit")

OPTIONS = (*OFFLINE, *ARBITRARY, *READ_ONLY)

KERNEL = r"""
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <curand_kernel.h>
#include <cub/cub.cuh>
__global__ void k(float *out, unsigned long long seed) {
    curandStatePhilox4_32_10_t state;
    curand_init(seed, threadIdx.x, 0, &state);
    typedef cub::BlockReduce<float, 128> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    float sum = Reduce(storage).Sum(curand_uniform(&state));
    if (threadIdx.x == 0) *out = __bfloat162float(__float2bfloat16(sum));
}
extern "C" void launch(float *out) { k<<<1, 128>>>(out, 1); }
"""

COMPILE = """
set -e
cd "$(mktemp -d)"
cat > k.cu
nvcc -gencode arch=compute_90,code=sm_90 -cubin -o k.cubin k.cu
nvcc -shared -Xcompiler -fPIC -gencode arch=compute_90,code=sm_90 -cudart shared -L"$CUDA_HOME/lib64" -o k.so k.cu
cuobjdump -elf k.cubin | grep -o 'sm_90' | head -1
python -c "import ctypes, torch; ctypes.CDLL('./k.so').launch; print('loaded')"
id -u
"""

EXTENSION = """
import os, sys, torch
from torch.utils import cpp_extension
source = '''
#include <torch/extension.h>
torch::Tensor twice(torch::Tensor x) { return x + x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
'''
open("/tmp/twice.cpp", "w").write(source)
twice = cpp_extension.load("twice", ["/tmp/twice.cpp"], verbose=False)
print(os.getuid(), twice.twice(torch.ones(2)).tolist(), cpp_extension.CUDA_HOME)
"""

PLACES = """
import json, os, shutil
from pathlib import Path
import flashinfer.jit.cpp_ext as flashinfer, flashinfer.jit.env as env, triton
from torch.utils import cpp_extension
home = Path(flashinfer.get_cuda_path())
ptxas = triton.knobs.nvidia.ptxas.path if hasattr(triton, "knobs") else ""
env.FLASHINFER_JIT_DIR.mkdir(parents=True, exist_ok=True)
found = {
    "nvcc": (home / "bin/nvcc").is_file(),
    "same home": os.path.samefile(home, cpp_extension.CUDA_HOME),
    "curand": (home / "include/curand_kernel.h").is_file(),
    "cudart": (home / "lib64/libcudart.so").is_file(),
    "triton's ptxas": bool(ptxas) and os.access(ptxas, os.X_OK),
    "ninja": shutil.which("ninja") is not None,
    "Python.h": Path("/usr/include/python3.11/Python.h").is_file(),
    "flashinfer's cache": os.access(env.FLASHINFER_JIT_DIR, os.W_OK),
}
print(json.dumps(found))
"""


def test_nvcc_compiles_a_kernel_to_sm_90(docker: Docker) -> None:
    """Headers and compiler of one CUDA: CCCL refuses a mixture, and with it all that FlashInfer compiles."""
    done = docker.run("bash", "-c", COMPILE, options=OPTIONS, data=KERNEL.encode(), timeout=600)
    assert done.out.split() == ["sm_90", "loaded", "12345"]


def test_a_c_extension_compiles(docker: Docker) -> None:
    out = docker.python(EXTENSION, options=OPTIONS, timeout=600)
    assert out.splitlines()[-1] == "12345 [2.0, 2.0] /usr/local/cuda"


def test_everything_lies_where_it_is_looked_for(docker: Docker) -> None:
    found = json.loads(docker.python(PLACES, options=OPTIONS).splitlines()[-1])
    assert [what for what, there in found.items() if not there] == []


def test_all_that_needs_no_driver_can_be_imported(docker: Docker) -> None:
    """The top-level modules of all wheels, each in a process of its own; the exceptions name the driver's library."""
    lines = docker.python(IMPORT_ALL, options=OPTIONS, timeout=900).splitlines()
    failed: dict[str, str] = json.loads(lines[-1])
    assert {name: why for name, why in failed.items() if "libcuda.so.1" not in why and "libnvidia-" not in why} == {}
    assert len(failed) < 6, failed


IMPORT_ALL = """
import importlib, importlib.metadata, json, os
import numpy, torch
names = set()
for distribution in importlib.metadata.distributions():
    for file in distribution.files or ():
        parts = file.parts
        if len(parts) == 2 and parts[1] == "__init__.py" and "." not in parts[0]:
            names.add(parts[0])
failed = {}
for name in sorted(names):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        said = ""
        try:
            importlib.import_module(name)
        except BaseException as problem:
            said = f"{type(problem).__name__}: {problem}"[:2000]
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    status = os.waitpid(child, 0)[1]
    if said or status:
        failed[name] = said or f"ended with status {status}"
print(json.dumps(failed))
"""
