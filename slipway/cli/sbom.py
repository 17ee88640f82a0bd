"""Prints the bill of materials of an image, made from its lock: every artifact with version, sha256, licence, source.

`--licences` reads what artifacts say of their licence out of the store into locks/licences.json, which is committed:
run it after `build.py lock` and `build.py fetch`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from slipway import lock as locks
from slipway.cli import common
from slipway.errors import UsageError

HELP = "print an image's bill of materials (SPDX, CycloneDX, licences)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_selection(parser)
    parser.add_argument("--format", choices=("spdx", "cyclonedx", "table"), default="spdx", help="default: spdx")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write here instead of stdout")
    parser.add_argument("--licences", action="store_true", help="bring locks/licences.json up to date, from the store")
    parser.add_argument(
        "--syft", type=Path, metavar="FILE", help="hold the bill against the output of `syft -o syft-json`; exit 6"
    )
    common.add_folders(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.licences:
        return _collect(args)
    from slipway.lock import file
    from slipway.pins import load
    from slipway.supply.components import components, read_licences, table
    from slipway.supply.cyclonedx import cyclonedx
    from slipway.supply.spdx import spdx

    selection = load(common.ROOT / "versions.toml").select(args.release, args.variant, args.arch)
    lock = file.read(locks.path(selection.release, selection.variant, selection.arch))
    found = components(lock, read_licences(locks.FOLDER))
    if args.syft:
        from slipway.supply.syft import compare

        result = compare(found, args.syft, common.ROOT / "docker" / "syft.toml")
        if args.json:
            print(json.dumps(vars(result), indent=2))
        result.refuse()
        if not args.json:
            print(f"syft finds {result.found}, all of the bill among them; {result.explained} explained")
        return 0
    sha256 = hashlib.sha256(file.dump(lock).encode()).hexdigest()
    if args.format == "table":
        content = table(found).encode()
    else:
        content = (spdx if args.format == "spdx" else cyclonedx)(lock, sha256, found) + b"\n"
    silent = [one.artifact.label for one in found if not one.licence.expression and not one.licence.text]
    if silent:
        print(f"{len(silent)} of {len(found)} artifacts state no licence that can be read", file=sys.stderr)
    if args.output:
        args.output.write_bytes(content)
    else:
        sys.stdout.buffer.write(content)
    return 0


def _collect(args: argparse.Namespace) -> int:
    """Add what is missing, drop what no lock names any more."""
    from slipway.host.replace import write_whole
    from slipway.lock import file
    from slipway.lock.model import Artifact
    from slipway.progress import open_progress
    from slipway.store import Store
    from slipway.supply.components import dump_licences, read_licences
    from slipway.supply.licences import licence_of

    store = Store(args.store)
    wanted: dict[str, Artifact] = {}
    for path in sorted(locks.FOLDER.glob("*.toml")):
        wanted |= {artifact.sha256: artifact for artifact in file.read(path).downloads}
    known = {sha256: row for sha256, row in read_licences(locks.FOLDER).items() if sha256 in wanted}
    lacking = [artifact for sha256, artifact in wanted.items() if sha256 not in known]
    absent = [artifact for artifact in lacking if not store.path(artifact.sha256).exists()]
    with open_progress() as progress, progress.step("licences", len(lacking)) as step:
        for artifact in lacking:
            if artifact not in absent:
                known[artifact.sha256] = licence_of(artifact, store.checked(artifact))
            step.advance()
    write_whole(locks.FOLDER / "licences.json", dump_licences(known).encode())
    document = {"artifacts": len(wanted), "known": len(known), "not_in_store": [one.label for one in absent]}
    print(json.dumps(document, indent=2) if args.json else f"{len(known)} of {len(wanted)} artifacts")
    if absent:
        raise UsageError(
            f"{len(absent)} artifacts are not in the store, e.g. {absent[0].label}",
            remedy="python3 build.py fetch, with --release and --variant, brings them",
        )
    return 0
