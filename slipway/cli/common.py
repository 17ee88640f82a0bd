"""Options that several verbs share, and where things lie on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from slipway.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: versions.toml, locks/, docker/ and serve_app/ lie here."""


def cache_home() -> Path:
    """The user's cache folder by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "slipway"


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Which image: release, variant, architecture; defaults stand in versions.toml."""
    parser.add_argument("--release", help="release of versions.toml, e.g. 2.60")
    parser.add_argument("--variant", help="cpu or cuda; build takes several: cpu,cuda")
    parser.add_argument("--arch", help="amd64 or arm64")


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Where artifacts and layers are kept between builds."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        default=Path(os.environ.get("SLIPWAY_STORE") or cache_home() / "store"),
        help="folder of downloaded artifacts (environment: SLIPWAY_STORE; now %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        default=Path(os.environ.get("SLIPWAY_CACHE") or cache_home() / "layers"),
        help="folder of finished layers (environment: SLIPWAY_CACHE; now %(default)s)",
    )


def built(args: argparse.Namespace) -> Path:
    """The layout of the selected image in out/. Raises UsageError where none was built."""
    from slipway.pins import load

    selection = load(ROOT / "versions.toml").select(args.release, args.variant, args.arch)
    folder = ROOT / "out" / selection.label
    if not (folder / "index.json").exists() and not (folder / "refused.json").exists():
        how = f"--release {selection.release} --variant {selection.variant} --arch {selection.arch}"
        raise UsageError(
            f"{selection.label} is not built", where=folder, remedy=f"python3 build.py build {how}, or name a layout"
        )
    return folder


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`: one document on stdout, progress stays on stderr."""
    parser.add_argument("--json", action="store_true", help="print one JSON document to stdout")
