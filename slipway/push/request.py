"""From the options of a push to jobs: which layouts, which tags, what is attached to them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from slipway.errors import UsageError
from slipway.progress import Progress
from slipway.push import limits
from slipway.push.content import Content, read_content
from slipway.push.push import Job
from slipway.push.tags import Tags, check_given, image_tags
from slipway.push.target import registry_http
from slipway.registry.client import Repository
from slipway.registry.reference import Reference

Connect = Callable[[], Repository]


def prepare(where: Reference, progress: Progress) -> Connect:
    """A way to the repository: logs in to ECR and creates the repository there where `where` is one of ECR's."""
    if limits.kind_of(where.host) == "other":
        return lambda: Repository(where, registry_http(where, progress.warn))
    from slipway.ecr.registry import prepare_ecr

    login = prepare_ecr(where, progress)
    return lambda: Repository(where, registry_http(where, progress.warn), find=login)


def jobs_for(args: argparse.Namespace, folders: Sequence[Path], progress: Progress) -> list[Job]:
    """Read the layouts and decide everything about the push. Touches no network."""
    contents = [read_content(folder) for folder in folders]
    digests = [content.digest for content in contents]
    if len(set(digests)) != len(digests):
        raise UsageError("two of the layouts are the same image")
    jobs = [_job(args, content, progress) for content in contents]
    taken: dict[str, str] = {}
    for job in jobs:
        for tag in job.tags.all if job.tags else ():
            if taken.setdefault(tag, job.digest) != job.digest:
                raise UsageError(f"two of the images would be tagged {tag}")
    return jobs


def _job(args: argparse.Namespace, content: Content, progress: Progress) -> Job:
    tags = tags_for(args, content)
    if args.attest == "none" and not args.key:
        return Job(content, tags, mount_from=args.mount_from)
    from slipway.supply.attach import attachments, index_documents

    more = index_documents(content) if args.attest == "index" else ()
    attached = attachments(content, args.key, attest=args.attest, progress=progress)
    return Job(content, tags, more, attached, args.mount_from)


def tags_for(args: argparse.Namespace, content: Content) -> Tags:
    """The image's own tags and those of --tag. Raises UsageError, GateRefused."""
    for tag in args.tags:
        check_given(tag, content.labels)
    if "io.slipway.lock" not in content.labels and args.tags:
        return Tags("", tuple(args.tags))
    own = image_tags(content.labels, content.layout.architecture, args.revision)
    moving = () if args.no_moving else own.moving
    return Tags(own.immutable, tuple(dict.fromkeys((*moving, *args.tags))))
