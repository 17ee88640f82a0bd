"""Starts a prefill/decode application and a one-node one of the demo model side by side, to be compared."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serve_app import hardware
from serve_app.demo import config as one_node
from serve_app.demo import model as demo_model
from serve_app.errors import ServeAppError

START_S = 900.0
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def configuration(model: Path, kind: hardware.Kind) -> dict[str, Any]:
    """P/D at /, one node at /one; the same model, engine options and environment."""
    document = one_node.config(model, kind)
    single = document["applications"][0]
    llm = single["args"]["llm_configs"][0]
    role = {"runtime_env": llm["runtime_env"]}
    split = {
        "model": {"id": one_node.MODEL_ID, "source": str(model), "engine": llm["engine_kwargs"]},
        "prefill": role, "decode": role, "kv_transfer": {"allow_same_node": True},
    }  # fmt: skip
    pd = {"name": "pd", "route_prefix": "/", "import_path": "serve_app:build_pd_app", "args": split}
    return {"applications": [pd, {**single, "name": "one", "route_prefix": "/one"}]}


@contextlib.contextmanager
def running(folder: Path, port: int) -> Iterator[tuple[str, str, Path]]:
    """(P/D's URL, one node's URL, model folder). Raises ServeAppError with the log's place when it does not come up."""
    model = folder / "model"
    demo_model.make(model)
    config, log = folder / "bench.yaml", folder / "serve.log"
    config.write_text(json.dumps(configuration(model, hardware.kind()), indent=2))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "serve_app", "serve", str(config), "--host", "127.0.0.1", "--port", str(port)],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, env=os.environ,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url, log)
        yield url, f"{url}/one", model
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        if all(_ready(place) for place in (url, f"{url}/one")):
            return
        time.sleep(1.0)
    raise ServeAppError(f"the demo's two applications did not get ready; {log} says why")


def _ready(url: str) -> bool:
    try:
        with OPENER.open(f"{url}/ready", timeout=10) as answer:
            return bool(answer.status == 200 and not json.load(answer).get("degraded"))
    except (OSError, ValueError):
        return False
