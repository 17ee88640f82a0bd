"""`serve_app drain`."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from serve_app.cli import address
from serve_app.drain import local
from serve_app.errors import MissingError, ServeAppError, UsageError

HELP = "let running requests end and take no new ones: of the service on this machine, or of a cluster"
POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to drain, and for how long."""
    parser.add_argument("--port", type=int, help="the service on this port (needed when several run here)")
    parser.add_argument("--address", help="drain applications of this Ray cluster instead (host:port or auto)")
    parser.add_argument("--application", action="append", metavar="NAME",
                        help="with --address: this application (default: all of the cluster's)")  # fmt: skip
    parser.add_argument("--timeout", type=address.seconds, metavar="S",
                        help="seconds to wait at most (default: endpoint.drain_s; 20 with --address)")  # fmt: skip
    parser.add_argument("--undo", action="store_true", help="take requests again")


def run(args: argparse.Namespace) -> int:
    """0: nothing runs any more. Raises ServeAppError (exit 1) when requests are left at the end of the time."""
    if args.address:
        address.check(args.address)
        return _cluster(args)
    path, service = _find(args.port)
    if not service.ready:
        raise MissingError(f"the service on port {service.port} still loads; there is nothing to drain")
    if not args.undo:
        local.change(path, drained=False)
    os.kill(service.pid, signal.SIGUSR2 if args.undo else signal.SIGUSR1)
    if args.undo:
        print(f"port {service.port}: takes requests again")
        return 0
    seconds = service.drain_s if args.timeout is None else args.timeout
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = local.read(path)
        if now is None or now.drained:
            print(f"port {service.port}: {'has ended' if now is None else 'drained, takes no requests'}")
            return 0
        time.sleep(POLL_S)
    raise ServeAppError(f"port {service.port}: requests still run after {seconds:g} s; it takes no new ones")


def _find(port: int | None) -> tuple[Path, local.Running]:
    found = [(path, service) for path, service in local.all_of() if port in (None, service.port)]
    if not found:
        which = "" if port is None else f" on port {port}"
        raise MissingError(f"no serve_app of this user runs here{which} (looked in {local.folder()})")
    if len(found) > 1:
        raise UsageError(f"several run here: give --port, one of {', '.join(sorted(str(s.port) for _, s in found))}")
    return found[0]


def _cluster(args: argparse.Namespace) -> int:
    from serve_app.run import ray_local

    ray_local.use_token()
    import ray
    from ray import serve

    from serve_app.drain import cluster

    ray.init(address=args.address, namespace="serve", log_to_driver=False)
    try:
        names = args.application or list(serve.status().applications)
        cluster.tell(names, not args.undo)
        if args.undo:
            return 0
        seconds = 20.0 if args.timeout is None else args.timeout
        left = cluster.wait(names, seconds)
    finally:
        ray.shutdown()
    if left:
        raise ServeAppError(f"{left} requests still run after {seconds:g} s; no new ones are taken")
    print(f"drained: {', '.join(names) or 'no application'}")
    return 0
