"""`serve_app bench`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from serve_app.errors import UsageError

HELP = "compare a prefill/decode endpoint with one node, under the same load, in one run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two URLs or --demo; what to run; what to write."""
    parser.add_argument("--pd", metavar="URL", help="the prefill/decode endpoint, without /v1")
    parser.add_argument("--one", metavar="URL", help="what to compare it with: one node, or several behind a router")
    parser.add_argument("--demo", action="store_true", help="start both with the demo model on this machine")
    parser.add_argument("--port", type=int, default=8000, help="port for --demo (default: %(default)s)")
    parser.add_argument("--api-key-file", type=Path, metavar="FILE", help="file with an API key for both")
    parser.add_argument("--tokenizer", help="model folder or hub name (default: what /v1/models says)")
    parser.add_argument("--context", type=int, help="tokens the traces are scaled to (default: the model's context)")
    parser.add_argument("--traces", default="chat,rag,summary,agent,burst", help="which (default: %(default)s)")
    parser.add_argument("--trace-file", type=Path, metavar="JSONL", help='own prompts: {"prompt": "text"} a line')
    parser.add_argument("--output-tokens", type=int, default=128, help="answers' length for --trace-file")
    parser.add_argument("--seeds", type=int, default=5, help="pairs of runs a trace (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of arrivals a run (default: %(default)s)")
    parser.add_argument("--load", type=float, default=0.5,
                        help="arrivals, as part of a busy node's rate (default: %(default)s)")  # fmt: skip
    parser.add_argument("--busy", type=int, default=8, metavar="N",
                        help="requests in flight that keep one node busy (default: %(default)s)")  # fmt: skip
    parser.add_argument("--no-sweep", action="store_true", help="leave out the sweep over rates")
    parser.add_argument("--no-lengths", action="store_true", help="leave out the sweep over prompt lengths")
    parser.add_argument("--slo", metavar="ttft=MS,itl=MS", help="what a good request keeps (default: 5 x and 3 x what "
                        "an idle node takes)")  # fmt: skip
    parser.add_argument("--dollars-per-hour", metavar="pd=X,one=Y", help="adds dollars per million output tokens")
    parser.add_argument("--base-seed", type=int, help="first seed (default: from the clock, so that no prompt is in a "
                        "prefix cache yet)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write bench.json, bench.html and load.log there")
    parser.add_argument("--json", action="store_true", help="the result on stdout instead of a table")


def run(args: argparse.Namespace) -> int:
    """Runs the bench; prints table or JSON."""
    from serve_app.bench import report

    if args.demo == bool(args.pd or args.one) or bool(args.pd) != bool(args.one):
        raise UsageError("give --pd URL and --one URL, or --demo")
    slo = _pair(args.slo, "--slo", ("ttft", "itl"))
    dollars = _pair(args.dollars_per_hour, "--dollars-per-hour", ("pd", "one"))
    if args.seeds < 2:
        raise UsageError("--seeds must be 2 or more: one pair has no interval")
    started = time.monotonic()
    with _endpoints(args) as (pd_url, one_url, folder):
        result = _measure(args, pd_url, one_url, folder, slo)
    result["about"]["took"] = f"{time.monotonic() - started:.0f} s"
    if dollars:
        result["cost"] = _cost(result, dollars)
    _write(args, result)
    print(json.dumps(result) if args.json else report.table(result))
    return 0


def _measure(
    args: argparse.Namespace, pd_url: str, one_url: str, folder: str | None, slo: dict[str, float] | None
) -> dict[str, Any]:
    from serve_app.bench import load, traces, watch
    from serve_app.bench.figures import Run, Slo
    from serve_app.bench.session import Session, Settings
    from serve_app.demo import config as demo_config

    key = args.api_key_file.read_text().strip() if args.api_key_file else None
    model, length, source = load.model_of(pd_url, key)
    context = args.context or length or (demo_config.CONTEXT if args.demo else None)
    if not context:
        raise UsageError(f"{pd_url}/v1/models does not tell the model's context length; give --context TOKENS")
    tokenizer = args.tokenizer or folder or source
    if not tokenizer:
        raise UsageError(f"{pd_url}/v1/models does not tell the model's folder; give --tokenizer")
    known = traces.standard(context)
    names = [] if args.trace_file else args.traces.split(",")
    for name in names:
        if name not in known:
            raise UsageError(f"--traces: no trace {name!r}; there are {', '.join(known)}")
    chosen = [traces.own(args.trace_file, args.output_tokens)] if args.trace_file else [known[name] for name in names]
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    generator = load.Generator(tokenizer, args.out / "load.log" if args.out else None)

    def one_run(target: load.Target, asked: load.Asked) -> Run:
        before = watch.metrics_of(target.url, key)
        with watch.Gpus() as gpus:
            done = generator.run(target, asked)
        moved = watch.transfer_figures(before, watch.metrics_of(target.url, key)) if target.name == "pd" else {}
        return dataclasses.replace(done, extra={**moved, **gpus.figures})

    session = Session(
        one_run,
        load.Target("pd", pd_url, model, key),
        load.Target("one", one_url, load.model_of(one_url, key)[0], key),
        context,
        Settings(
            seeds=args.seeds, seconds=args.seconds, load=args.load, busy=args.busy, sweep=not args.no_sweep,
            lengths=not args.no_lengths and not args.trace_file,
            base_seed=args.base_seed if args.base_seed is not None else int(time.time()) % 1_000_000 * 1000,
            slo=Slo(slo["ttft"] / 1000, slo["itl"] / 1000) if slo else None,
        ),
        lambda text: print(f"bench: {text}", file=sys.stderr, flush=True),
        lambda result: _write(args, result),
    )  # fmt: skip
    session.result["about"] = _about(model, context, session.settings.base_seed)
    return session.all(chosen)


@contextlib.contextmanager
def _endpoints(args: argparse.Namespace) -> Iterator[tuple[str, str, str | None]]:
    if not args.demo:
        yield args.pd.rstrip("/"), args.one.rstrip("/"), None
        return
    from serve_app.bench import demo

    with tempfile.TemporaryDirectory(prefix="serve_app-bench-") as folder:
        print("bench: starting prefill/decode and one node of the demo model", file=sys.stderr, flush=True)
        with demo.running(args.out or Path(folder), args.port) as (pd_url, one_url, model):
            yield pd_url, one_url, str(model)


def _about(model: str, context: int, base_seed: int) -> dict[str, Any]:
    """What a reader needs to judge the figures, or to run it again."""
    versions = {}
    for name in ("ray", "vllm", "nixl", "torch"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    gpus: list[str] = []
    with contextlib.suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        gpus = [str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)))
                for i in range(pynvml.nvmlDeviceGetCount())]  # fmt: skip
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores" + (f", {len(gpus)} x {gpus[0]}" if gpus else ""),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "command": shlex.join(["serve_app", *sys.argv[1:]]),
        "model": model,
        "context": context,
        "base_seed": base_seed,
    }


def _cost(result: dict[str, Any], dollars: dict[str, float]) -> list[dict[str, Any]]:
    from serve_app.bench.figures import dollars_per_million, percentile

    rows = []
    for trace in result["traces"]:
        rates = {name: percentile([run["tokens_per_s"] for run in runs], 50) for name, runs in trace["runs"].items()}
        rows.append({"trace": trace["name"], **{n: dollars_per_million(dollars[n], rate) for n, rate in rates.items()}})
    return rows


def _pair(text: str | None, option: str, names: tuple[str, str]) -> dict[str, float] | None:
    """`a=1,b=2`. Raises UsageError."""
    if text is None:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        with contextlib.suppress(ValueError):
            found[name.strip()] = float(value)
    if set(found) != set(names) or min(found.values()) <= 0:
        raise UsageError(f"{option} must look like {names[0]}=NUMBER,{names[1]}=NUMBER with positive numbers, "
                         f"not {text!r}")  # fmt: skip
    return found


def _write(args: argparse.Namespace, result: dict[str, Any]) -> None:
    from serve_app.bench import page

    if args.out:
        (args.out / "bench.json").write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", "utf-8")
        (args.out / "bench.html").write_text(page.page(result, "prefill/decode against one node"), "utf-8")
