"""Signs an image that is in a registry already, e.g. with a new key: signatures of other keys stay.

With --attest, SBOM and provenance are signed, too; this checkout must then have the image's lock.
"""

from __future__ import annotations

import argparse
import json

from slipway.cli import common
from slipway.cli.parser import given

HELP = "sign an image in a registry with one more key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", metavar="REF", help="HOST/NAME:TAG or HOST/NAME@sha256:…")
    parser.add_argument(
        "--key", required=True, type=given, metavar="KEY", help="PEM file, cosign's key file, or a KMS URI"
    )
    parser.add_argument("--attest", action="store_true", help="sign SBOM and provenance as well")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from slipway.progress import open_progress
    from slipway.push.push import failures
    from slipway.push.request import prepare
    from slipway.registry.pull import reading, resolve
    from slipway.registry.reference import parse_reference
    from slipway.registry.referrers import attach
    from slipway.supply import cosign
    from slipway.supply.attach import papers
    from slipway.supply.signing import open_key

    reference = parse_reference(args.reference)
    key = open_key(args.key)
    with open_progress() as progress:
        repository = prepare(reference, progress)()
        with reading(reference):
            image = resolve(repository, None)
        with failures(repository):
            where = f"{reference.host}/{reference.name}"
            found = cosign.signature(repository, image.digest, key)
            if args.attest:
                made = papers(image.labels, image.architecture)
                found += cosign.attestations(repository, image.digest, key, made.statements(where, image.digest))
            digests = attach(repository, image.descriptor, found)
    if args.json:
        print(json.dumps({"image": f"{where}@{image.digest}", "key": key.id, "attached": digests}, indent=2))
    else:
        print(f"{where}@{image.digest}: " + ("signed" if digests else "this key has signed it before"))
    return 0
