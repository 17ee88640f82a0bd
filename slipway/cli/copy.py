"""Copies an image between registries, or between repositories of one: all platforms, signatures, attestations, SBOMs.

    build.py copy staging.example.com/slipway@sha256:… prod.example.com/slipway:2.60-cuda

The digest stays, so what was signed and proven stays so. The target's tag is set last; without one there is no tag.
"""

from __future__ import annotations

import argparse
import contextlib
import json

from slipway.cli import common

HELP = "copy an image to another registry, with all that proves it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="HOST/NAME:TAG or HOST/NAME@sha256:…")
    parser.add_argument("target", metavar="TO", help="HOST/NAME[:TAG]")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from slipway.errors import UsageError
    from slipway.progress import open_progress, size_text
    from slipway.push.push import failures
    from slipway.push.request import prepare
    from slipway.push.tags import check_given
    from slipway.registry.pull import reading, resolve
    from slipway.registry.reference import parse_reference
    from slipway.registry.transfer import Transfer

    source, target = parse_reference(args.source), parse_reference(args.target)
    if target.digest:
        raise UsageError("TO can't name a digest: it will be that of the image", where=args.target)
    with open_progress() as progress, progress.step("copy") as step:
        come_from, go_to = prepare(source, progress)(), prepare(target, progress)()
        image = None
        with reading(source):
            come_from.manifest()
            with contextlib.suppress(UsageError):  # an index over several architectures
                image = resolve(come_from, None) if target.tag else None
        if image is not None:
            check_given(target.tag, image.labels)
        with failures(go_to):
            copied = Transfer(come_from, go_to, step).run((target.tag,) if target.tag else ())
        step.note(f"{size_text(copied.sent)} sent, {copied.attached} attached")
    where = f"{target.host}/{target.name}@{copied.digest}"
    print(json.dumps({"image": where, **vars(copied)}, indent=2) if args.json else where)
    return 0
