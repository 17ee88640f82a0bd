"""Pushes finished images (OCI layouts) to a registry: blobs, manifest, what is attached to it, and last its tags.

Where to:   --registry, else SLIPWAY_REGISTRY, else [push] in versions.toml; the repository is <registry>/slipway
Tags:       an immutable one made of the versions and the lock's hash, and RELEASE-VARIANT, which moves (docs/push.md)
Attached:   SBOM (SPDX and CycloneDX) and SLSA provenance; with --key, signatures that cosign verifies

Exit 5 when a push failed: no tag names an incomplete image, and the next run sends only what is missing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway.cli import common
from slipway.cli.parser import at_least, given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slipway.progress import Progress
    from slipway.push.push import Pushed

HELP = "push images to a registry, with SBOM, provenance and signature"


def add_registry(parser: argparse.ArgumentParser) -> None:
    """Where images lie; `verify --registry` has a reference of its own."""
    parser.add_argument(
        "--registry",
        metavar="HOST[/FOLDER]",
        help="registry to push to (environment: SLIPWAY_REGISTRY; else [push] in versions.toml)",
    )
    parser.add_argument("--repository", metavar="NAME", help="repository in it (default: slipway)")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of a push, for `push` and `build --push`."""
    add_registry(parser)
    parser.add_argument(
        "--tag", dest="tags", action="append", default=[], metavar="TAG", help="one more moving tag (repeatable)"
    )
    parser.add_argument("--no-moving", action="store_true", help="set the immutable tag only")
    parser.add_argument(
        "--revision",
        type=at_least(0),
        default=0,
        metavar="N",
        help="…-rN behind the immutable tag: same lock, other code",
    )
    parser.add_argument("--dry-run", action="store_true", help="print exactly what would be sent, send nothing")
    parser.add_argument(
        "--attest",
        choices=("referrers", "index", "none"),
        default="referrers",
        help="attach SBOM and provenance as referrers (default), as an index's attestation manifest, or not at all",
    )
    parser.add_argument(
        "--key",
        type=given,
        metavar="KEY",
        help="sign with this key: a file made by `cosign generate-key-pair` or openssl, or a KMS URI of cosign's",
    )
    parser.add_argument(
        "--mount-from",
        metavar="NAME",
        default="",
        help="take blobs over from this repository of the same registry where it has them and allows it",
    )
    parser.add_argument("--digest-file", type=Path, metavar="FILE", help="write what was pushed as JSON, for pipelines")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "layouts", nargs="*", type=Path, metavar="LAYOUT", help="OCI layouts (default: out/<image> of the selection)"
    )
    common.add_selection(parser)
    parser.add_argument(
        "--finish",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="push nothing: read --digest-file's of other pushes, make indexes over architectures, move the tags "
        "(repeatable)",
    )
    add_options(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from slipway.errors import UsageError
    from slipway.progress import open_progress

    with open_progress() as progress:
        if args.finish and args.layouts:
            raise UsageError("--finish pushes no images, and layouts are named", remedy="leave out one of them")
        if args.finish:
            from slipway.push.finish import finish

            _check_digest_file(args)
            return report(args, finish(args, progress))
        where = destination(args)
        folders = args.layouts or [common.built(args)]
        return push_layouts(args, folders, where, progress)


def destination(args: argparse.Namespace) -> Any:
    """The repository that the options mean. Raises UsageError, and MissingError where the digest file can't be written:
    callers ask before they build."""
    from slipway.push.target import target, unset

    _check_digest_file(args)
    pinned = ""
    if unset(args.registry):
        from slipway.pins import load

        pinned = load(common.ROOT / "versions.toml").registry
    return target(args.registry, args.repository, pinned=pinned)


def _check_digest_file(args: argparse.Namespace) -> None:
    from slipway.errors import UsageError
    from slipway.image.place import check_writable

    if args.digest_file:
        check_writable(args.digest_file.absolute().parent, "digest-file")
        if args.digest_file.is_dir():
            raise UsageError("--digest-file names a folder", where=args.digest_file, remedy="name a file in it")


def push_layouts(args: argparse.Namespace, folders: Sequence[Path], where: Any, progress: Progress) -> int:
    """Push and report; returns the exit code."""
    from slipway.push.push import NotAllPushed, push
    from slipway.push.request import jobs_for, prepare

    connect = prepare(where, progress)
    jobs = jobs_for(args, folders, progress)
    if args.dry_run:
        from slipway.push.plan import dry_run, text
        from slipway.push.push import failures

        with failures(connect()) as repository:
            plans = [dry_run(job, repository) for job in jobs]
        print(json.dumps({"dry_run": True, "images": plans}, indent=2) if args.json else text(plans))
        return 0
    try:
        results = push(jobs, connect, progress)
    except NotAllPushed as error:
        _write(args, error.results)
        raise
    return report(args, results)


def report(args: argparse.Namespace, results: Sequence[Pushed]) -> int:
    """Say what is there now, for people, for `--json`, and in the digest file."""
    _write(args, results)
    if args.json:
        print(json.dumps({"images": [result.as_json() for result in results]}, indent=2))
    else:
        for result in results:
            print(f"{result.reference}\n" + "".join(f"  {tag}\n" for tag in result.tags), end="")
    return 0


def _write(args: argparse.Namespace, results: Sequence[Pushed]) -> None:
    if args.digest_file:
        from slipway.host.replace import write_whole

        args.digest_file.parent.mkdir(parents=True, exist_ok=True)
        document = {"format": 1, "images": [result.as_json() for result in results if result.state == "whole"]}
        write_whole(args.digest_file, json.dumps(document, indent=2).encode() + b"\n")
