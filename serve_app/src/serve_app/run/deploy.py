"""Everything that talks to Ray Serve."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import serve
from ray.serve import schema
from ray.serve._private import api as private_api
from ray.serve.config import HTTPOptions, ProxyLocation

from serve_app.errors import ConfigError, Problem, ServeAppError
from serve_app.run import ray_local, resources

if TYPE_CHECKING:
    from serve_app.run.runner import Spec

Say = Callable[..., None]
POLL_S = 0.25
DECLARATIVE = {"runtime_env", "deployments", "autoscaling_policy", "host", "port"}
"""Keys of an application that only Serve's own builder understands; without them it is built in this process, which
saves a process that imports everything once more."""


def connect(spec: Spec, session: Path | None, say: Say) -> None:
    """ray.init and Serve's controller and proxy, on the endpoint's address."""
    logging.getLogger("ray").setLevel(logging.WARNING)
    # vLLM's import takes as long as Ray's start, and both mostly wait: side by side. `deploy` then finds it done.
    threading.Thread(target=importlib.import_module, args=["ray.serve.llm"], daemon=True).start()
    if session is not None:
        options = ray_local.options(resources.logical_cpus(spec.serve), session)
        ray_local.patiently(lambda: ray.init(**options, namespace="serve"), ray.shutdown, say)
    else:
        ray.init(address=spec.address, namespace="serve")
    http = {**spec.serve.get("http_options", {}), "host": spec.host, "port": spec.port}
    http.pop("location", None)
    # An address of this node only can't be listened on by the other nodes' proxies.
    everywhere = session is None and spec.host in ("0.0.0.0", "::")  # noqa: S104
    location = spec.serve.get("proxy_location", "EveryNode" if everywhere else "HeadOnly")
    private_api.serve_start(
        http_options=HTTPOptions(**http), proxy_location=ProxyLocation(location),
        global_logging_config=spec.serve.get("logging_config"),
    )  # fmt: skip


def deploy(spec: Spec) -> None:
    """Gives the applications to Serve; does not wait. Raises ConfigError where one can't be built."""
    applications = spec.serve["applications"]
    if any(DECLARATIVE & set(application) for application in applications):
        client = serve.context._get_global_client()
        client.deploy_apps(schema.ServeDeploySchema.model_validate(spec.serve))
        return
    targets = [
        serve.RunTarget(
            target=_build(application, spec.source, f"applications[{index}]"),
            name=application.get("name", "default"),
            route_prefix=application.get("route_prefix", "/"),
            logging_config=application.get("logging_config"),
        )
        for index, application in enumerate(applications)
    ]
    serve.api._run_many(targets, wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)


def _build(application: dict[str, Any], source: str, path: str) -> serve.Application:
    module, _, name = application["import_path"].replace(":", ".").rpartition(".")
    try:
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError([Problem(f"{path}.import_path", str(error))], source) from error
    if isinstance(target, serve.Application):
        return target
    args = application.get("args", {})
    try:
        # A builder takes the arguments as one dict, or none at all (Ray's documentation, "app builder").
        built = target(args) if inspect.signature(target).parameters else target()
    except ConfigError as error:
        placed = [Problem(f"{path}.args{'.' if p.path else ''}{p.path}", p.what, p.remedy) for p in error.problems]
        raise ConfigError(placed, source) from error
    except ValueError as error:  # pydantic's ValidationError is one
        raise ConfigError([Problem(f"{path}.args", " ".join(str(error).split()))], source) from error
    return built


def wait_running(spec: Spec, say: Say) -> None:
    """Until every application runs. Tells of each deployment once. Raises ServeAppError when one failed for good."""
    names = {application.get("name", "default") for application in spec.serve["applications"]}
    told: set[str] = set()
    end = time.monotonic() + spec.ready_timeout_s
    while time.monotonic() < end:
        found = {name: app for name, app in serve.status().applications.items() if name in names}
        for name, app in found.items():
            if app.status == schema.ApplicationStatus.DEPLOY_FAILED:
                raise ServeAppError(f"application {name} can't be deployed: {_reason(app)}")
            for deployment, state in app.deployments.items():
                if state.status == "HEALTHY" and f"{name}/{deployment}" not in told:
                    told.add(f"{name}/{deployment}")
                    say("replicas", f"{deployment} runs", application=name, deployment=deployment)
        if len(found) == len(names) and all(app.status == "RUNNING" for app in found.values()):
            return
        time.sleep(POLL_S)
    states = "; ".join(f"{name}: {_reason(app)}" for name, app in serve.status().applications.items())
    raise TimeoutError(f"not running within {spec.ready_timeout_s:.0f} s: {states}")


def watch(spec: Spec, say: Say, pause: Callable[[float], None] = time.sleep) -> None:
    """Tells of every change of state until Ray is gone; then returns. pause: waits, and does what it is asked to."""
    last: dict[str, str] = {}
    failures = 0
    while failures < 5:
        try:
            states = {name: str(app.status.value) for name, app in serve.status().applications.items()}
            failures = 0
        except Exception as error:  # noqa: BLE001 - whatever Ray raises when its processes are gone
            failures += 1
            say("warning", f"Serve does not answer: {type(error).__name__}")
            states = last
        for name, state in states.items():
            if last.get(name, "RUNNING") != state:
                say("state", f"application {name} is {state}", application=name, state=state)
        last = states
        pause(2.0)
    say("failed", "Ray does not answer any more")


def connected() -> bool:
    """True once connect() got through to Ray."""
    return bool(ray.is_initialized())


def take_down(names: list[str], own_ray: bool) -> None:
    """Lets running requests end and stops Serve; on a cluster of others only the named applications leave."""
    try:
        if own_ray:
            serve.shutdown()
        else:
            for name in names:
                serve.delete(name, _blocking=True)
    finally:
        ray.shutdown()


def _reason(app: Any) -> str:
    messages = [app.message, *(state.message for state in app.deployments.values())]
    return " ".join(text for text in messages if text) or str(app.status.value)
