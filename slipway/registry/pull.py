"""Pulls images: by tag or digest, whole into an OCI layout or only what a reader needs. Everything is hashed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError as TransportError

from slipway.errors import MissingError, UsageError, WrongArtifact
from slipway.host.replace import write_whole
from slipway.image.layout import LAYOUT_FILE
from slipway.image.manifest import INDEX, index
from slipway.progress import Progress
from slipway.registry.client import Manifest, Repository
from slipway.registry.reference import Reference
from slipway.sources.address import redact
from slipway.sources.http import READ_SIZE
from slipway.sources.outcome import Absent, NotHad, Refused, WrongBytes
from slipway.store.parallel import each

PULLS = 4
LOG_IN = "log in first: docker login, podman login, or for ECR the project's role"
ANSWERS = "see that the registry answers there, and run the command again; one without TLS has http:// before its name"
_INDEXES = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")


@dataclass(frozen=True)
class Remote:
    """An image in a registry. digest, descriptor: of what the reference names, an index or a manifest; manifest,
    config: of one architecture's image in it; manifest_digest: that image's."""

    digest: str
    descriptor: Mapping[str, Any]
    manifest_digest: str
    manifest_bytes: bytes
    media_type: str
    config: Mapping[str, Any]

    @property
    def manifest(self) -> Mapping[str, Any]:
        document: Mapping[str, Any] = json.loads(self.manifest_bytes)
        return document

    @property
    def labels(self) -> dict[str, str]:
        return dict((self.config.get("config") or {}).get("Labels") or {})

    @property
    def architecture(self) -> str:
        return str(self.config.get("architecture", ""))


@contextlib.contextmanager
def reading(reference: Reference) -> Iterator[None]:
    """Turn what keeps from reading an image into an error for the user: WrongArtifact (exit 4) where the registry has
    not got it, or other bytes; MissingError (exit 3) where it can't be asked."""
    try:
        yield
    except Absent as error:
        raise WrongArtifact(
            f"{reference.host} has no {reference}: {error.reason}",
            where=error.address,
            remedy="look at name, tag and digest; some registries say the same to those who have not logged in",
        ) from error
    except WrongBytes as error:
        raise WrongArtifact(
            f"{reference.host} gives other bytes than its digests say: {error.reason}", where=error.address
        ) from error
    except NotHad as error:
        raise MissingError(
            f"{reference} can't be read: {error.reason}",
            where=error.address,
            remedy=LOG_IN if isinstance(error, Refused) else ANSWERS,
        ) from error


def resolve(repository: Repository, architecture: str | None) -> Remote:
    """Read what the reference names. Attestations in an index are passed over.

    Raises UsageError where an index holds several images and none is chosen, and NotHad."""
    top = repository.manifest()
    chosen = top
    if top.media_type in _INDEXES:
        entries = [
            entry
            for entry in json.loads(top.content).get("manifests") or []
            if (entry.get("platform") or {}).get("os") != "unknown"
            and "vnd.docker.reference.type" not in (entry.get("annotations") or {})
            and architecture in (None, (entry.get("platform") or {}).get("architecture"))
        ]
        if len(entries) != 1:
            names = ", ".join(str((entry.get("platform") or {}).get("architecture")) for entry in entries) or "none"
            raise UsageError(
                f"the index holds {len(entries)} images ({names}), one is needed",
                where=repository.reference,
                remedy="say which one with --arch",
            )
        chosen = repository.manifest(str(entries[0]["digest"]))
    config = _config(repository, chosen)
    descriptor = {"mediaType": top.media_type, "digest": top.digest, "size": len(top.content)}
    return Remote(top.digest, descriptor, chosen.digest, chosen.content, chosen.media_type, config)


def _config(repository: Repository, chosen: Manifest) -> Mapping[str, Any]:
    """An image's configuration. Raises UsageError for what is no image: other artifacts, manifests of old formats."""
    try:
        config = json.loads(repository.blob(str(json.loads(chosen.content)["config"]["digest"])))
        if isinstance(config, dict):
            return config
    except (KeyError, TypeError, ValueError):
        pass
    raise UsageError(
        f"{repository.reference} is no image but {chosen.media_type or 'something else'}",
        where=f"{repository.reference.host}/{repository.reference.name}@{chosen.digest}",
        remedy="name an image's tag or digest",
    )


def pull(repository: Repository, architecture: str | None, folder: Path, progress: Progress) -> Path:
    """The image as an OCI layout below `folder`, which is shared: blobs that other images brought are not pulled again.
    Returns the layout's folder."""
    image = resolve(repository, architecture)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    manifest = image.manifest
    layout = folder / image.manifest_digest.removeprefix("sha256:")
    layout.mkdir(exist_ok=True)
    wanted = {str(entry["digest"]): int(entry["size"]) for entry in (manifest["config"], *manifest["layers"])}
    lacking = {digest: size for digest, size in wanted.items() if not (blobs / digest[7:]).exists()}
    with progress.step(f"pull {repository.reference}", sum(wanted.values()), "bytes") as step:
        step.advance(sum(wanted.values()) - sum(lacking.values()))

        def bring(digest: str) -> None:
            with step.part(digest[7:19], wanted[digest]) as part:
                pull_blob(repository, digest, blobs / digest[7:], part.advance)

        each(sorted(lacking, key=lambda digest: -lacking[digest]), bring, PULLS, repository.http.cancel)
    write_whole(blobs / image.manifest_digest[7:], image.manifest_bytes)
    if not (layout / "blobs").exists():
        (layout / "blobs").symlink_to("../blobs", target_is_directory=True)
    write_whole(layout / "oci-layout", LAYOUT_FILE)
    platform = {"architecture": image.architecture, "os": str(image.config.get("os", "linux"))}
    entry = {
        "mediaType": image.media_type,
        "digest": image.manifest_digest,
        "size": len(image.manifest_bytes),
        "platform": platform,
    }
    write_whole(layout / "index.json", index([entry]).content)
    return layout


def pull_blob(repository: Repository, digest: str, target: Path, moved: Any) -> None:
    """One blob into a file, taken up again where the connection broke. Raises WrongBytes, NotHad."""
    url = repository.blob_address(digest)
    tries = repository.http.tries(url)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("w+b") as file:
            while True:
                at = file.seek(0, os.SEEK_END)
                headers = {"Range": f"bytes={at}-"} if at else {}
                response = repository.request("GET", url, repository.pull_scope, headers, keep_body=True)
                if at and response.status != 206:
                    file.truncate(0)
                    file.seek(0)
                    moved(-at)
                try:
                    while chunk := response.read(READ_SIZE):
                        file.write(chunk)
                        moved(len(chunk))
                    break
                except TransportError as error:
                    tries.reached(file.tell())
                    tries.broken(error)
                finally:
                    response.close()
            file.seek(0)
            found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if found != digest:
            raise WrongBytes(redact(url), "other bytes", found.removeprefix("sha256:"))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
