"""`serve_app serve CONFIG.yaml` and `serve_app serve --demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from serve_app import environment, hardware
from serve_app.cli import address
from serve_app.errors import UsageError

HELP = "bring up an OpenAI endpoint from a YAML (or --demo), in the foreground"
ANY = "0.0.0.0"  # noqa: S104 - the endpoint is what a container publishes; everything else listens on loopback


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """CONFIG or --demo, and where to listen."""
    parser.add_argument(
        "config",
        metavar="CONFIG.yaml",
        nargs="?",
        type=Path,
        help="model, prefill and decode; a Serve file; a builder's arguments (llm_configs:); or one LLMConfig",
    )
    parser.add_argument("--demo", action="store_true",
                        help="serve a tiny random model made on the spot: no GPU, no download")  # fmt: skip
    parser.add_argument("--host", help=f"address of the endpoint (default: http_options.host, or {ANY})")
    parser.add_argument("--port", type=_port, help="port of the endpoint (default: http_options.port, or 8000)")
    parser.add_argument("--address", help="join this Ray cluster (host:port) instead of starting one here")
    parser.add_argument("--check", action="store_true", help="only check the configuration")
    parser.add_argument("--ready-timeout", type=address.seconds, default=1800.0, metavar="S",
                        help="seconds until the first token at most (default: %(default)s)")  # fmt: skip
    parser.add_argument("--log-format", choices=("text", "json"), default="text",
                        help="lines on stderr: text, or one JSON object each (default: %(default)s)")  # fmt: skip


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port (1 to 65535)")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Checks, then serves until a signal; the exit code."""
    from serve_app.run.phases import Reporter

    report = Reporter(args.log_format)
    cache = environment.prepare()
    serve, source = _configuration(args, cache, report)
    if args.check:
        print(f"{source}: fine")
        return 0
    if args.address:
        address.check(args.address)
    from serve_app.run.runner import Spec
    from serve_app.run.supervisor import Supervisor

    http = serve.get("http_options") or {}
    spec = Spec(
        serve=serve,
        source=source,
        host=args.host or http.get("host") or ANY,
        port=args.port or http.get("port") or 8000,
        address=args.address,
        ready_timeout_s=args.ready_timeout,
        drain_s=_drain_s(serve),
    )
    command = [sys.executable, "-m", "serve_app.run.runner"]
    return Supervisor(command, spec.to_bytes(), report, spec.port, spec.drain_s).run()


def _drain_s(serve: dict[str, Any]) -> float:
    """The longest of the applications', as `explain` shows it."""
    from serve_app.access.settings import Endpoint

    blocks = [(application.get("args") or {}).get("endpoint") for application in serve["applications"]]
    return max(Endpoint.of(block).drain_s for block in blocks)


def _configuration(args: argparse.Namespace, cache: Path, report: Any) -> tuple[dict[str, Any], str]:
    if args.demo == (args.config is not None):
        raise UsageError("give either CONFIG.yaml or --demo")
    if args.demo:
        from serve_app.demo import config, model

        folder = model.cached(cache)
        report.event("model", f"demo model in {folder}")
        return config.config(folder, hardware.kind()), "the demo"
    from serve_app.config import document, explain, forms

    plan = forms.plan(document.read(args.config))
    explain.everything(plan)  # what a builder would refuse, before Ray is up
    return plan.serve, plan.source
