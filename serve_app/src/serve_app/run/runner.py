"""The process that holds Ray: brings the applications up, says so, and waits for SIGTERM.

Started by the supervisor (`python -m serve_app.run.runner`), with a Spec as JSON on its standard input.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from serve_app import errors
from serve_app.pd.alone import ALONE
from serve_app.run import probe, processes, ray_local

POLL_S = 0.25


@dataclass(frozen=True)
class Spec:
    """What to run.

    serve: a checked Serve configuration. host, port: the endpoint. address: a cluster to join, or None for a Ray of
    our own. ready_timeout_s: how long the first token may take. drain_s: how long running requests may take to end.
    """

    serve: dict[str, Any]
    source: str
    host: str
    port: int
    address: str | None
    ready_timeout_s: float
    drain_s: float = 20.0

    def to_bytes(self) -> bytes:
        """For the supervisor to pass on."""
        return json.dumps(asdict(self)).encode()


class Stopped(BaseException):
    """SIGTERM came. Not an Exception, so that no library takes it for a failure of its own."""


def say(name: str, text: str, **facts: Any) -> None:
    """One event to the supervisor."""
    line = json.dumps({"name": name, "text": text, **facts}) + "\n"
    os.write(int(os.environ["SERVE_APP_EVENTS"]), line.encode())


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped


class Wishes:
    """SIGUSR1: take no new requests. SIGUSR2: take them again. Fulfilled between two looks at Serve's state."""

    def __init__(self, spec: Spec) -> None:
        self.names = _names(spec)
        self.draining = False
        self._came = threading.Event()
        self._told = False
        self._drained = False

    def listen(self) -> None:
        """From now on."""
        signal.signal(signal.SIGUSR1, lambda _number, _frame: self._wish(True))
        signal.signal(signal.SIGUSR2, lambda _number, _frame: self._wish(False))

    def _wish(self, draining: bool) -> None:
        self.draining = draining
        self._drained = False
        self._came.set()

    def pause(self, seconds: float) -> None:
        """Waits, less when a signal comes, and does what is wished for."""
        from serve_app.drain import cluster

        self._came.wait(POLL_S if self.draining and not self._drained else seconds)
        if self._came.is_set():
            self._came.clear()
            left = cluster.tell(self.names, self.draining)
            say("draining" if self.draining else "taking",
                f"no new requests are taken, {left} run" if self.draining else "requests are taken again")  # fmt: skip
        if self.draining and not self._drained and cluster.running(self.names) == 0:
            self._drained = True
            say("drained", "no request runs any more")


def run(spec: Spec) -> int:
    """Until SIGTERM; the exit code."""
    if spec.address:
        ray_local.use_token()
    # Imported here: the start of this module must be quick, and `deploy` brings Ray along.
    from serve_app.run import deploy

    session = None if spec.address else ray_local.session_folder()
    if session is not None:
        os.environ[ALONE] = "1"
    failed = True
    try:
        deploy.connect(spec, session, say)
        signal.signal(signal.SIGTERM, _stop)  # after ray.init, which sets a handler of its own
        say("ray", "Ray is up" if session else f"joined Ray at {spec.address}")
        deploy.deploy(spec)
        say("deployed", f"{len(spec.serve['applications'])} application(s) given to Serve")
        deploy.wait_running(spec, say)
        wishes = Wishes(spec)
        wishes.listen()
        _tokens(spec)
        failed = False
        deploy.watch(spec, say, wishes.pause)
        failed = True
        return errors.EXIT_FAILED
    except Stopped:
        failed = False
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        _drain(spec)
        deploy.take_down(_names(spec), own_ray=session is not None)
        return 0
    except errors.ServeAppError as error:
        say("failed", str(error))
        _leave(spec)
        return error.exit_code
    except TimeoutError as error:
        say("failed", str(error))
        _leave(spec)
        return errors.EXIT_FAILED
    finally:
        if session is not None and failed:
            say("logs", f"Ray's logs are kept in {session}/session_latest/logs")
        elif session is not None:
            shutil.rmtree(session, ignore_errors=True)


def _drain(spec: Spec) -> None:
    """Before anything is taken down: running requests end, new ones get a 503."""
    from serve_app.drain import cluster
    from serve_app.run import deploy

    if not deploy.connected():
        return
    running = cluster.tell(_names(spec))
    if running:
        say("draining", f"{running} requests run, {spec.drain_s:g} s at most; new ones get a 503")
    left = cluster.wait(_names(spec), max(spec.drain_s / 2, spec.drain_s - cluster.END_S))
    if left:
        cluster.end(_names(spec))
    say("drained", f"{left} requests were ended with an error" if left else "no request runs any more")


def _leave(spec: Spec) -> None:
    """Takes a failed application off a cluster of others, where Serve would go on starting it for ever."""
    from serve_app.run import deploy

    if spec.address is not None and deploy.connected():
        deploy.take_down(_names(spec), own_ray=False)


def _names(spec: Spec) -> list[str]:
    return [str(application.get("name", "default")) for application in spec.serve["applications"]]


def _tokens(spec: Spec) -> None:
    """The first real token of every model of every application, then the line that says ready."""
    end = time.monotonic() + spec.ready_timeout_s
    found: dict[str, str] = {}
    for application in spec.serve["applications"]:
        prefix = application.get("route_prefix", "/")
        if prefix is None or not application["import_path"].startswith(("serve_app:", "ray.serve.llm:")):
            continue  # not an OpenAI endpoint: Serve's word that it runs is all there is
        base = probe.url(spec.host, spec.port, prefix)
        keyed = bool(((application.get("args") or {}).get("endpoint") or {}).get("keys_file"))
        routes = probe.wait_for_tokens(base, max(1.0, end - time.monotonic()), keyed=keyed)
        for model, route in routes.items():
            say("first_token", f"{model} gave a token through {prefix.rstrip('/')}{route}", model=model)
        found |= dict.fromkeys(routes, base)
    endpoint = probe.url(spec.host, spec.port, "/")
    say("ready", f"serving {', '.join(sorted(found)) or 'no model'} on {endpoint}", models=sorted(found), url=endpoint)


def main() -> int:
    """Reads the Spec and runs it."""
    processes.die_with_parent(signal.SIGTERM)
    spec = Spec(**json.load(sys.stdin))
    sys.path.insert(0, str(Path.cwd()))  # as `serve run` does: import_path may name a module beside the YAML
    return run(spec)


if __name__ == "__main__":
    code = main()
    # Not sys.exit: Ray's and vLLM's threads may hold an ordinary exit up; the supervisor ends what is left.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
