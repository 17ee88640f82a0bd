#!/usr/bin/env python3
"""Makes what the documentation takes from the code: `python3 docs/generate.py [--check]`.

docs/reference/configuration.md   every key of a configuration, from serve_app's models and its table of Ray's
docs/reference/doctor.md          serve_app doctor's checks, from the checks
docs/pictures/layers.svg          the image's layers, from the plan
docs/pictures/pd.svg              the way of a request, from the resolved example configuration

With --check nothing is written; exit 1 names what is not current. Needs PyYAML and the driver's requirements.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT / "serve_app" / "src"), str(ROOT)]

KINDS = {"int": "number", "float": "number", "str": "text", "bool": "true, false", "list": "list", "dict": "mapping"}
HEAD = "<!-- Made by docs/generate.py; do not edit. -->\n"

RAY_SECTIONS = {
    "llm_config": "One LLMConfig: `prefill_config`, `decode_config`, a member of `llm_configs`",
    "model_loading_config": "`model_loading_config`",
    "accelerator_config": "`accelerator_config`; in the short form `accelerator`",
    "placement_group_config": "`placement_group_config`; in the short form `placement`",
    "deployment_config": "`deployment_config`; in the short form `ingress`",
    "autoscaling_config": "`autoscaling_config`; in the short form `autoscaling`",
    "ray_actor_options": "`ray_actor_options`",
    "runtime_env": "`runtime_env`",
    "lora_config": "`lora_config`",
    "kv_transfer_config": "`engine_kwargs.kv_transfer_config`",
    "engine_kwargs": "`engine_kwargs`; in the short form `engine`: vLLM's own arguments",
}


def kinds(entry: dict[str, Any]) -> str:
    """What a key takes, for people."""
    if entry.get("choices"):
        words = [f"`{choice}`" for choice in entry["choices"]]
        words += [KINDS[kind] for kind in entry["kinds"] if kind in KINDS]
        return ", ".join(words)
    found = dict.fromkeys(KINDS.get(kind, "anything") for kind in entry["kinds"] if kind not in ("null", "choice"))
    return " or ".join(found)


def meanings(cls: type) -> dict[str, str]:
    """Field → what the dataclass' docstring says of it, as `name: text`."""
    names = [field.name for field in dataclasses.fields(cls)]
    text = " ".join((cls.__doc__ or "").split())
    parts = re.split(rf"(?:^|(?<=[ ])){'(' + '|'.join(names) + ')'}: ", text)
    return {name: said.strip().rstrip(";") for name, said in zip(parts[1::2], parts[2::2], strict=True)}


def ours(cls: type, known: dict[str, dict[str, Any]]) -> list[str]:
    """A table of one of our own blocks."""
    said = meanings(cls)
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(cls):
        default = json.dumps(field.default if not isinstance(field.default, tuple) else list(field.default))
        meaning = said.get(field.name, "").replace("|", "\\|")
        lines.append(f"| `{field.name}` | {kinds(known[field.name])} | `{default}` | {meaning} |")
    return lines


def configuration() -> str:
    """The reference of the configuration."""
    from serve_app.access.settings import Endpoint
    from serve_app.config import known_keys
    from serve_app.config.check import REQUIRED
    from serve_app.pd.settings import Settings
    from serve_app.pd.short_form import ROLE

    sections = known_keys.load().sections
    lines = [HEAD, "# Configuration reference\n"]
    lines += ["`serve_app explain CONFIG.yaml` prints every value of *your* configuration and where it comes from;",
              "[Serve prefill and decode](../serve.md) says which form to choose.\n"]  # fmt: skip
    lines += ["## `kv_transfer`: how the KV cache travels\n", *ours(Settings, sections["kv_transfer"]), ""]
    lines += ["## `endpoint`: what clients may do\n", *ours(Endpoint, sections["endpoint"]), ""]
    lines += ["## The short form\n", "| key | takes | stands for |", "|---|---|---|"]
    for key, entry in sections["short_model"].items():
        needed = " (needed)" if key in REQUIRED["short_model"] else ""
        lines.append(f"| `model.{key}`{needed} | {kinds(entry)} | both roles' `{SHORT_MODEL[key]}` |")
    for key, entry in sections["short_role"].items():
        lines.append(f"| `prefill.{key}`, `decode.{key}` | {kinds(entry)} | that role's `{ROLE[key]}` |")
    lines += ["| `ingress` | mapping | `ingress_deployment_config` |", ""]
    for section, title in RAY_SECTIONS.items():
        lines += [f"## {title}\n", "| key | takes |", "|---|---|"]
        lines += [f"| `{key}` | {kinds(entry)} |" for key, entry in sections[section].items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


SHORT_MODEL = {
    "id": "model_loading_config.model_id",
    "source": "model_loading_config.model_source",
    "tokenizer": "model_loading_config.tokenizer_source",
    "engine": "engine_kwargs",
}


def doctor() -> str:
    """The doctor's checks, by name, with the first paragraph of what each says of itself."""
    from serve_app.doctor import checks

    lines = [HEAD, "# What `serve_app doctor` looks at\n", "| check | what it is about |", "|---|---|"]
    for found in sorted(pkgutil.iter_modules(checks.__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{checks.__name__}.{found.name}")
        said = " ".join((module.__doc__ or "").strip().split("\n\n")[0].split()).replace("|", "\\|")
        lines.append(f"| `{found.name}` | {said} |")
    return "\n".join(lines) + "\n"


def plan() -> list[dict[str, Any]]:
    """The default image's layers. Only what the locks say is used: no cache, no store, no clock."""
    command = [sys.executable, "-c", "import sys; from slipway.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    done = subprocess.run([*command, "plan", "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    layers: list[dict[str, Any]] = json.loads(done.stdout)["layers"]
    return layers


COLOURS = {"debian": "#a7c7e7", "fabric": "#f6c6a7", "wheels": "#b9e0b0", "files": "#e8e1a6", "ldcache": "#d9d9d9"}
OWN = ("serve-app", "share", "venv", "ldcache")
"""Layers of this project's own files: their sizes change with every commit and say nothing."""


def layers_picture() -> str:
    """One bar a layer, as long as the bytes that go into it."""
    layers = plan()
    most = max(layer["input_bytes"] for layer in layers)
    rows = []
    for number, layer in enumerate(layers):
        y = 60 + number * 24
        own = layer["name"] in OWN
        width = 6 if own else max(6, round(560 * layer["input_bytes"] / most))
        size = "" if own else f"{layer['input_bytes'] / 1e6:.0f} MB"
        if layer["kind"] == "fabric":
            size += ", most of it the compiler, which stays outside"
        rows.append(rectangle(190, y, width, 18, COLOURS[layer["kind"]]))
        rows.append(text(180, y + 13, layer["name"], "end") + text(198 + width, y + 13, size))
    title = text(
        20, 26, "Layers of the cpu image, bottom first; length: bytes of the packages that go into it", size=15
    )
    legend = "".join(
        rectangle(20 + 110 * n, 38, 12, 12, colour) + text(37 + 110 * n, 48, kind)
        for n, (kind, colour) in enumerate(COLOURS.items())
    )
    return svg(840, 70 + 24 * len(layers), [title, legend, *rows])


def pd_picture() -> str:
    """Who asks whom when a prompt comes in, with the settings of docker/examples/deployment on a GPU with EFA."""
    import yaml
    from serve_app.pd.resolve import resolve

    example = yaml.safe_load((ROOT / "docker" / "examples" / "deployment" / "llm.yaml").read_text())
    resolved = resolve(example, "gpu", efa=True)
    engines = {role: resolved.args[f"{role}_config"]["engine_kwargs"] for role in ("prefill", "decode")}
    transfer = engines["decode"]["kv_transfer_config"]
    backend = transfer["kv_connector_extra_config"]["backends"][0]
    roles = {role: engine["kv_transfer_config"]["kv_role"] for role, engine in engines.items()}
    ours = resolved.settings
    parts = [
        text(20, 28, "A request's way", size=15),
        box(20, 110, 150, 60, "client", "POST /v1/chat/completions"),
        box(220, 110, 150, 60, "ingress", "OpenAI routes, :8000"),
        box(
            460, 50, 250, 90, "decode", roles["decode"], f"block_size {engines['decode']['block_size']}", "orchestrates"
        ),
        box(
            460,
            210,
            250,
            90,
            "prefill",
            roles["prefill"],
            f"block_size {engines['prefill']['block_size']}",
            f"keeps blocks {ours.lease_s} s",
        ),  # fmt: skip
        arrow(170, 140, 220, 140, "1"),
        arrow(370, 132, 460, 105, "2"),
        arrow(520, 140, 520, 210, "3"),
        arrow(650, 210, 650, 140, "4"),
        text(664, 180, f"KV cache: NIXL {backend}"),
        arrow(460, 125, 370, 152, "5"),
        text(20, 340, "1, 2 the request"),
        text(
            20,
            360,
            f"3 the prompt, for one token; a sign of life every {ours.beat_s:g} s, given up after {ours.silence_s:g} s",
        ),
        text(20, 380, "4 decode reads the prompt's blocks from prefill's memory"),
        text(
            20, 400, f"5 tokens, as they come; where prefill is away or a transfer fails: {ours.on_failure} on decode"
        ),
    ]
    return svg(900, 420, parts)


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """A document with a white ground, so that it can be read on a dark page, too."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    marker = '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    marker += '<path d="M0,0 L7,3 L0,6 z"/></marker></defs>'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    body = "\n".join(part for part in (marker, ground, *parts) if part)
    return f"{head}\n<!-- Made by docs/generate.py; do not edit. -->\n{body}\n</svg>\n"


def text(x: int, y: int, words: str, anchor: str = "start", size: int = 12) -> str:
    if not words:
        return ""
    style = f'font-family="sans-serif" font-size="{size}" text-anchor="{anchor}" fill="#222222"'
    return f'<text x="{x}" y="{y}" {style}>{html.escape(words)}</text>'


def rectangle(x: int, y: int, width: int, height: int, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}" stroke="#555555"/>'


def box(x: int, y: int, width: int, height: int, name: str, *lines: str) -> str:
    parts = [rectangle(x, y, width, height, "#eef3f8"), text(x + 10, y + 20, name, size=14)]
    parts += [text(x + 10, y + 40 + 16 * number, line, size=10) for number, line in enumerate(lines)]
    return "".join(parts)


def arrow(x1: int, y1: int, x2: int, y2: int, label: str) -> str:
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#222222" marker-end="url(#a)"/>'
    return line + text((x1 + x2) // 2 + 5, (y1 + y2) // 2 - 5, label)


MADE: dict[str, Callable[[], str]] = {
    "reference/configuration.md": configuration,
    "reference/doctor.md": doctor,
    "pictures/layers.svg": layers_picture,
    "pictures/pd.svg": pd_picture,
}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, name what is not current")
    check = parser.parse_args(words).check
    stale = []
    for name, make in MADE.items():
        path, content = DOCS / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    for name in stale:
        print(f"{'not current' if check else 'written'}: docs/{name}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
