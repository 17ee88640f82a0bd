"""Pushes images so that no reader ever meets half of one.

For each image: blobs in parallel, manifest by digest, what is attached to it, and only then its tags, the immutable
one first. Before the first byte all tags and limits are looked at. A push that dies leaves blobs and perhaps a
manifest that no tag names; the next one finds them and sends what is missing. Nothing is ever deleted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from slipway.errors import PushFailed, SlipwayError
from slipway.image.manifest import Document
from slipway.progress import Progress, size_text
from slipway.push import limits
from slipway.push.content import Content, check_file
from slipway.push.tags import Tags
from slipway.registry.client import Repository
from slipway.registry.pull import ANSWERS, LOG_IN
from slipway.registry.referrers import Attachment, attach
from slipway.registry.upload import Upload
from slipway.sources.outcome import Absent, NotHad, Refused, Unreachable, WrongBytes
from slipway.store.parallel import each

Attach = Callable[[Repository, Mapping[str, Any]], Sequence[Attachment]]

REMEDIES = {
    Refused: LOG_IN,
    Absent: "look at host and folder: the repository may have to be made first, or this is no registry",
}
PUSHES = 4
"""Blobs that are sent at the same time."""


@dataclass(frozen=True)
class Job:
    """One image to push. tags: None where it is only needed by digest (a child of an index).

    more: manifests that are pushed after the image's own, each with its blobs; the last one is what tags name.
    attached: called when all is there, gives what is to be attached to what the tags name."""

    content: Content
    tags: Tags | None
    more: tuple[tuple[Document, tuple[Upload, ...]], ...] = ()
    attached: Attach = field(default=lambda _repository, _subject: ())
    mount_from: str = ""

    @property
    def top(self) -> Document:
        """What the tags name."""
        return self.more[-1][0] if self.more else Document(self.content.media_type, self.content.manifest)

    @property
    def digest(self) -> str:
        return self.top.digest

    @property
    def blobs(self) -> tuple[Upload, ...]:
        found = (*self.content.blobs, *(blob for _, blobs in self.more for blob in blobs))
        return tuple({blob.digest: blob for blob in found}.values())


@dataclass
class Pushed:
    """What came of one image. state: "whole" or "absent"; bytes_sent counts blobs only."""

    name: str
    reference: str
    digest: str
    manifest: str
    tags: tuple[str, ...]
    state: str = "absent"
    bytes_sent: int = 0
    blobs_sent: int = 0
    attached: tuple[str, ...] = ()
    error: SlipwayError | None = None

    def as_json(self) -> dict[str, Any]:
        document = {name: value for name, value in vars(self).items() if name != "error"}
        return {**document, "error": self.error.as_json() if self.error else None}


class NotAllPushed(PushFailed):
    """Some images are not in the registry (exit 5). results: one for each image, those that are there included."""

    def __init__(self, results: Sequence[Pushed], remedy: str) -> None:
        lines = [f"  {result.name}: {_state(result)}" for result in results]
        whole = sum(result.state == "whole" for result in results)
        super().__init__(
            f"{len(results) - whole} of {len(results)} images are not pushed\n" + "\n".join(lines),
            why="what is there is whole and stays; no tag names an image that is not",
            remedy=remedy,
        )
        self.results = tuple(results)

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "images": [result.as_json() for result in self.results]}


def _state(result: Pushed) -> str:
    if result.state == "whole":
        return f"whole, {result.digest}"
    return "not there" + (f": {result.error}".replace("\n", "\n    ") if result.error else "")


def push(jobs: Sequence[Job], connect: Callable[[], Repository], progress: Progress) -> list[Pushed]:
    """Push images one after the other; one that fails does not keep the others back.

    connect: a way to the repository for one image; what stops one must not stop the next.
    Raises NotAllPushed when any failed, after all were tried; the error of the only one where there is one."""
    first = connect()
    results = [_result(job, first) for job in jobs]
    for job in jobs:
        limits.check(job.content, len(job.tags.all) if job.tags else 0, first.reference)
    for number, (job, result) in enumerate(zip(jobs, results, strict=True)):
        repository = connect() if number else first
        try:
            with failures(repository):
                _push(job, repository, result, progress)
            result.state = "whole"
        except SlipwayError as error:
            result.error = error
    failed = [result.error for result in results if result.error is not None]
    if failed and len(jobs) == 1:
        raise failed[0]
    if failed:
        raise NotAllPushed(results, failed[0].remedy or "run the command again")
    return results


def _result(job: Job, repository: Repository) -> Pushed:
    where = f"{repository.reference.host}/{repository.reference.name}"
    tags = job.tags.all if job.tags else ()
    return Pushed(job.content.name, f"{where}@{job.digest}", job.digest, job.content.digest, tags)


def _push(job: Job, repository: Repository, result: Pushed, progress: Progress) -> None:
    if job.tags is not None and job.tags.immutable:
        check_immutable(repository, job.tags.immutable, job.digest)
    total = sum(blob.size for blob in job.blobs)
    with progress.step(f"push {job.content.name}", total, "bytes") as step:
        documents = [
            (Document(job.content.media_type, job.content.manifest), job.content.blobs),
            *((document, blobs) for document, blobs in job.more),
        ]
        for document, blobs in documents:
            if repository.has_manifest(document.digest):
                step.advance(sum(blob.size for blob in blobs))  # a registry has no manifest whose blobs it lacks
                continue
            _push_blobs(repository, blobs, result, step.part, job.mount_from)
            _push_manifest(repository, document, blobs, result)
        step.note(
            f"{len(job.blobs)} blobs, {result.blobs_sent} of them ({size_text(result.bytes_sent)}) sent"
            if result.blobs_sent
            else "everything was there"
        )
    subject = job.top.descriptor()
    result.attached = tuple(attach(repository, subject, job.attached(repository, subject)))
    for tag in result.tags:
        repository.put_manifest(job.top.content, job.top.media_type, tag)


def _push_blobs(
    repository: Repository,
    blobs: Sequence[Upload],
    result: Pushed,
    part: Callable[[str, int], Any],
    mount_from: str = "",
    *,
    anew: bool = False,
) -> None:
    lock = threading.Lock()

    def send(blob: Upload) -> None:
        with part(blob.digest[7:19], blob.size) as row:
            try:
                sent = repository.push_blob(blob, row.advance, mount_from, anew=anew)
            except (Unreachable, WrongBytes) as error:
                if not (isinstance(error, WrongBytes) or "answered 400" in error.reason):
                    raise
                check_file(blob)  # ours is right: the bytes were changed on their way
                row.advance(-row.done)
                sent = repository.push_blob(blob, row.advance, anew=True)
        if sent:
            with lock:
                result.bytes_sent += blob.size
                result.blobs_sent += 1

    each(sorted(blobs, key=lambda blob: -blob.size), send, PUSHES, repository.http.cancel)


def _push_manifest(repository: Repository, document: Document, blobs: Sequence[Upload], result: Pushed) -> None:
    """A registry that says it has a blob and then misses it (a cache in front of it, a blob just collected) gets all
    blobs once more."""
    try:
        repository.send_manifest(document.content, document.media_type, document.digest)
    except NotHad as error:
        if not ("unknown" in error.reason or isinstance(error, WrongBytes)):
            raise
        _push_blobs(repository, blobs, result, lambda _name, _size: _Silent(), anew=True)
        repository.send_manifest(document.content, document.media_type, document.digest)
    if repository.manifest(document.digest).content != document.content:
        raise WrongBytes(repository.root, f"the registry gives other bytes for {document.digest}")


class _Silent:
    """A row that nobody sees."""

    done = 0

    def advance(self, count: int) -> None:
        """Nothing is counted."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_error: object) -> None:
        return None


def check_immutable(repository: Repository, tag: str, digest: str) -> None:
    """Raises PushFailed, naming both digests, when an immutable tag means another image."""
    there = repository.manifest_digest(tag)
    if there is not None and there != digest:
        where = f"{repository.reference.host}/{repository.reference.name}:{tag}"
        raise PushFailed(
            f"the immutable tag is {there} in the registry, this image is {digest}",
            where=where,
            why="who pinned this tag must never get another image",
            remedy="the same pins gave other bytes: python3 build.py diff names them. To publish this image beside the "
            "old one, push with --revision N (…-rN)",
        )


@contextlib.contextmanager
def failures(repository: Repository) -> Iterator[Repository]:
    """Turn a registry's refusals into PushFailed (exit 5)."""
    try:
        yield repository
    except NotHad as error:
        raise PushFailed(
            f"{urlsplit(error.address).netloc or repository.reference.host} did not do what was asked: {error.reason}",
            where=error.address,
            why="what a push has brought there stays and is not sent again; no tag names anything incomplete",
            remedy=REMEDIES.get(type(error), ANSWERS),
        ) from error
