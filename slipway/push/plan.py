"""What a push would send, without sending: `push --dry-run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipway.progress import size_text
from slipway.push.push import Job, check_immutable
from slipway.registry.client import Repository


def dry_run(job: Job, repository: Repository) -> dict[str, Any]:
    """What would be sent and set, by what the registry has now. Only asks. Raises PushFailed for an immutable tag that
    means another image."""
    if job.tags is not None and job.tags.immutable:
        check_immutable(repository, job.tags.immutable, job.digest)
    layers = {ref.digest: ref.name for ref in job.content.layout.layers}
    manifests = [(job.content.digest, len(job.content.manifest), job.content.blobs)]
    manifests += [(document.digest, len(document.content), blobs) for document, blobs in job.more]
    blobs, documents = [], []
    for digest, size, parts in manifests:
        there = repository.has_manifest(digest)
        documents.append({"digest": digest, "bytes": size, "send": not there})
        for part in parts:
            missing = not there and repository.blob_size(part.digest, pushing=True) is None
            name = layers.get(part.digest, "configuration")
            blobs.append({"name": name, "digest": part.digest, "bytes": part.size, "send": missing})
    attachments = []
    subject = job.top.descriptor()
    for attachment in job.attached(repository, subject):
        document = attachment.manifest(subject)
        size = sum(len(part.content) for part in attachment.parts)
        there = repository.has_manifest(document.digest)
        attachments.append({"kind": attachment.kind, "digest": document.digest, "bytes": size, "send": not there})
    tags = [
        {"tag": tag, "now": repository.manifest_digest(tag), "then": job.digest}
        for tag in (job.tags.all if job.tags else ())
    ]
    return {
        "image": job.content.name,
        "repository": f"{repository.reference.host}/{repository.reference.name}",
        "digest": job.digest,
        "blobs": blobs,
        "manifests": documents,
        "attachments": attachments,
        "tags": tags,
        "bytes_to_send": sum(row["bytes"] for row in (*blobs, *documents, *attachments) if row["send"]),
    }


def text(plans: Sequence[dict[str, Any]]) -> str:
    """The same for people."""
    lines = []
    for plan in plans:
        lines.append(f"{plan['image']} → {plan['repository']}@{plan['digest']}")
        rows = [("blob", row["name"], row) for row in plan["blobs"]]
        rows += [("manifest", "", row) for row in plan["manifests"]]
        rows += [("attach", row["kind"], row) for row in plan["attachments"]]
        lines += [
            f"  {'send' if row['send'] else 'has '}  {what:8}  {size_text(row['bytes']):>9}  {row['digest']}  {name}"
            for what, name, row in rows
        ]
        for row in plan["tags"]:
            change = "stays" if row["now"] == row["then"] else f"was {row['now'] or 'not there'}"
            lines.append(f"  tag   {row['tag']}  ({change})")
        lines.append(f"  {size_text(plan['bytes_to_send'])} would be sent")
    return "\n".join(lines)
