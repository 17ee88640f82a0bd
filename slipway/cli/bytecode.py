"""Records which modules starting the demo really imports: docker/bytecode/<release>-<variant>.txt.

The image carries byte-code of these modules and of no others: it halves the time of every process that imports vLLM
and Ray Serve, and all modules would cost three times as much. Run it after a bump of ray, vllm or torch. It starts the
image's demo in a container with an empty byte-code folder, asks for one chat completion, and looks at what Python
has compiled. Where there is no GPU, the cuda variant's demo can't start: --imports imports its modules instead.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable

from slipway.cli import build, common
from slipway.engine import session
from slipway.engine.model import Engine
from slipway.errors import BuildFailed
from slipway.image.definition import reference
from slipway.layers import imports
from slipway.layers.bytecode import dump_list, read_list
from slipway.load.load import load
from slipway.progress import Progress, open_progress
from slipway.wheel.paths import Venv

HELP = "record the modules whose byte-code the image carries"

PREFIX = "/tmp/bytecode"  # noqa: S108  # in a container of its own
START_SECONDS = 900.0

HEAD = "Modules that starting the demo imports. Made by: python3 build.py bytecode"
HEAD_IMPORTS = (
    "Modules that a start imports, without a GPU: those of slipway/layers/imports.py, and of the cpu variant's list\n"
    "what the image has. Made by: python3 build.py bytecode --imports"
)

ASK = """
import json, urllib.request
base = "http://127.0.0.1:8000"
model = json.load(urllib.request.urlopen(base + "/v1/models", timeout=10))["data"][0]["id"]
body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
head = {"content-type": "application/json"}
request = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(), head)
print(json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["finish_reason"])
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    build.add_image(parser)

    parser.add_argument(
        "--imports",
        action="store_true",
        help="no GPU here: import what a start imports (slipway/layers/imports.py) and add the cpu variant's list",
    )


def run(args: argparse.Namespace) -> int:
    with open_progress() as progress:
        asked = build.request(args, progress)
        with session.available(common.cache_home() / "engine") as engine:
            name = reference(asked.selection)
            load(asked.output, engine, name, progress)
            venv = Venv(python=asked.selection.python)
            with progress.step("imports" if args.imports else "demo") as step:
                if args.imports:
                    modules = imported_alone(engine, name, venv, _cpu_list(asked.selection.release), progress)
                else:
                    modules = imported(engine, name, venv, progress)
                step.note(f"{len(modules)} modules")
    path = common.ROOT / "docker" / "bytecode" / f"{asked.selection.release}-{asked.selection.variant}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_list(modules, HEAD_IMPORTS if args.imports else HEAD), "utf-8")
    if args.json:
        print(json.dumps({"file": str(path), "modules": len(modules)}))
    else:
        print(path)
    return 0


def imported(engine: Engine, image: str, venv: Venv, progress: Progress) -> list[str]:
    """Paths below site-packages of the modules that a demo compiled. Raises BuildFailed when it doesn't answer."""
    arguments = ["run", "--detach", "--network", "none", "--shm-size", "1g"]
    environment = ["--env", f"PYTHONPYCACHEPREFIX={PREFIX}", "--env", "PYTHONDONTWRITEBYTECODE="]
    container = engine.docker(*arguments, *environment, image, "serve_app", "serve", "--demo").out.strip()
    try:
        _wait(engine, container, progress)
        listing = engine.docker("exec", container, "find", f"{PREFIX}/{venv.site}", "-name", "*.pyc").out
    finally:
        engine.docker("rm", "--force", "--volumes", container, check=False)
    return modules_of(listing.splitlines(), venv)


def imported_alone(engine: Engine, image: str, venv: Venv, others: Iterable[str], progress: Progress) -> list[str]:
    """What importing imports.MODULES compiles, and those of `others` (paths below site-packages) that are there."""
    run = ["run", "--rm", "--interactive", "--network", "none", "--env", f"PYTHONPYCACHEPREFIX={PREFIX}"]
    script = (
        f"python -c \"$1\" {' '.join(imports.MODULES)} >&2; find {PREFIX}/{venv.site} -name '*.pyc'; "
        f'cd /{venv.site} && while read -r path; do [ ! -f "$path" ] || echo "$PWD/$path"; done'
    )
    listing = engine.docker(
        *run,
        *("--env", "PYTHONDONTWRITEBYTECODE=", image, "sh", "-c", script, "sh", imports.PROGRAM),
        data="".join(f"{path}\n" for path in others).encode(),
    )
    progress.say(f"can't be imported here: {listing.err.strip().splitlines()[-1]}")
    lines = listing.out.splitlines()
    there = {line.removeprefix(f"/{venv.site}/") for line in lines if line.startswith(f"/{venv.site}/")}
    return sorted({*modules_of(lines, venv), *there})


def _cpu_list(release: str) -> frozenset[str]:
    return read_list(common.ROOT / "docker" / "bytecode" / f"{release}-cpu.txt")


def modules_of(paths: list[str], venv: Venv) -> list[str]:
    """`/tmp/bytecode/opt/venv/…/ray/__init__.cpython-311.pyc` → `ray/__init__.py`; optimised variants don't count."""
    root = f"{PREFIX}/{venv.site}/"
    ending = f".{venv.cache_tag}.pyc"
    names = (path.removeprefix(root) for path in paths if path.startswith(root) and path.endswith(ending))
    return sorted(f"{name.removesuffix(ending)}.py" for name in names)


def _wait(engine: Engine, container: str, progress: Progress) -> None:
    deadline = time.monotonic() + START_SECONDS
    while engine.docker("exec", container, "python", "-c", ASK, check=False).code != 0:
        state = engine.docker("inspect", "--format", "{{.State.Running}}", container).out.strip()
        if state != "true" or time.monotonic() > deadline:
            logs = engine.docker("logs", container, check=False)
            raise BuildFailed("the demo did not answer", where=container, why=(logs.out + logs.err)[-4000:])
        time.sleep(2)
