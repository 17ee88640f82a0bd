"""The last step of a pipeline: indexes over architectures, and moving tags, from what other pushes wrote down.

Each build pushes its own image with --no-moving and --digest-file. When all are there, `push --finish FILE …` reads the
files, makes an index where a release and variant has several architectures, and moves the tags. A build that failed
wrote no file: its tags stay where they are.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.errors import PushFailed, UsageError
from slipway.image.manifest import INDEX, index
from slipway.progress import Progress
from slipway.push.push import Pushed, check_immutable, failures
from slipway.push.request import prepare
from slipway.push.tags import index_tags
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.outcome import Absent

REMEDY = "give --finish the file that `push --digest-file FILE` wrote, once for each push"


def finish(args: argparse.Namespace, progress: Progress) -> list[Pushed]:
    """Raises UsageError for files that are none, PushFailed when an image that a file names is not there."""
    images = [image for path in args.finish for image in _read(path)]
    repositories = {str(image["reference"]).partition("@")[0] for image in images}
    if len(repositories) != 1:
        raise UsageError(f"the files name {len(repositories)} repositories, tags are moved in one: {repositories}")
    where = parse_reference(repositories.pop())
    repository = prepare(where, progress)()
    with failures(repository), progress.step("finish", len(images)) as step:
        groups: dict[tuple[str, str], list[tuple[Mapping[str, Any], dict[str, Any]]]] = defaultdict(list)
        for digest in dict.fromkeys(str(image["manifest"]) for image in images):
            descriptor, config = _look(repository, digest)
            labels = config.get("config", {}).get("Labels") or {}
            key = (labels.get("io.slipway.release", ""), labels.get("io.slipway.variant", ""))
            groups[key].append((descriptor, config))
            step.advance()
        return [_finish(repository, args, rows) for _, rows in sorted(groups.items())]


def _finish(
    repository: Repository, args: argparse.Namespace, rows: Sequence[tuple[Mapping[str, Any], dict[str, Any]]]
) -> Pushed:
    tags = index_tags([config["config"]["Labels"] for _, config in rows], args.revision)
    platforms = [
        {**descriptor, "platform": {"architecture": config["architecture"], "os": config["os"]}}
        for descriptor, config in rows
    ]
    if len({entry["platform"]["architecture"] for entry in platforms}) != len(rows):
        raise UsageError("two images are for the same architecture, an index holds one")
    if len(rows) == 1:
        digest = str(rows[0][0]["digest"])
        there = repository.manifest(digest)
        content, kind = there.content, there.media_type
    else:
        document = index(sorted(platforms, key=lambda entry: str(entry["platform"]["architecture"])))
        content, kind, digest = document.content, INDEX, document.digest
        check_immutable(repository, tags.immutable, digest)
        repository.put_manifest(content, kind, digest)
    names = (*((tags.immutable,) if len(rows) > 1 else ()), *tags.moving)
    for tag in names:
        repository.put_manifest(content, kind, tag)
    where = f"{repository.reference.host}/{repository.reference.name}@{digest}"
    return Pushed(tags.moving[0], where, digest, digest, names, "whole")


def _look(repository: Repository, digest: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Descriptor and configuration of an image that has to be there."""
    try:
        found = repository.manifest(digest)
        config = json.loads(repository.blob(str(json.loads(found.content)["config"]["digest"])))
    except Absent as error:
        raise PushFailed(f"{digest} is not in the registry", where=error.address, remedy="push it again") from error
    return {"mediaType": found.media_type, "digest": digest, "size": len(found.content)}, config


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        document = json.loads(path.read_text("utf-8"))
        images = [image for image in document["images"] if image["state"] == "whole"]
    except (OSError, ValueError) as error:
        raise UsageError(f"this is no --digest-file of a push: {error}", where=path, remedy=REMEDY) from None
    except (KeyError, TypeError):
        raise UsageError("this is no --digest-file of a push", where=path, remedy=REMEDY) from None
    return images
