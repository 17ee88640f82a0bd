"""What starting the program imports, for an image that can't start here because its GPU is missing.

`build.py bytecode --imports` runs PROGRAM in the image's own Python: it imports each module of MODULES in a process of
its own and tells which could not be imported (vllm.platforms.cuda can't without a driver; Python has compiled it by
then). What else a start imports is what the cpu variant's does, as far as the image has it.
"""

from __future__ import annotations

MODULES = (
    "nixl._api",
    "flashinfer",
    "ray.serve.llm",
    "serve_app.cli.main",
    "torch._inductor.compile_fx",
    "triton.compiler.compiler",
    "triton.backends.nvidia.compiler",
    "vllm.distributed.kv_transfer.kv_connector.v1.nixl",
    "vllm.entrypoints.openai.api_server",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.models.qwen2",
    "vllm.model_executor.models.qwen3",
    "vllm.model_executor.models.qwen3_moe",
    "vllm.model_executor.models.deepseek_v2",
    "vllm.platforms.cuda",
    "vllm.v1.attention.backends.flash_attn",
    "vllm.v1.attention.backends.flashinfer",
    "vllm.v1.engine.core",
    "vllm.v1.executor.ray_executor",
    "vllm.v1.worker.gpu_worker",
)

PROGRAM = """
import importlib, json, os, sys
failed = {}
for name in sys.argv[1:]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        try:
            importlib.import_module(name)
            said = ""
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
