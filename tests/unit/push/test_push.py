"""Pushing images into a registry in this process: the order, the refusals, and what is sent twice (nothing)."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from slipway.errors import PushFailed, UsageError, WrongArtifact
from slipway.progress import Progress
from slipway.push import limits
from slipway.push.content import read_content
from slipway.push.plan import dry_run, text
from slipway.push.push import Job, NotAllPushed, push
from slipway.push.request import tags_for
from slipway.push.tags import Tags
from slipway.push.target import target
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.registry.referrers import Attachment, Part, referrers, tag_of
from slipway.sources.http import Http
from slipway.sources.retry import RetryPolicy
from slipway.testing.layouts import layout
from tests.unit.registry.fake import Registry, running

LABELS = {"io.slipway.release": "2.60", "io.slipway.variant": "cpu"}
TAGS = Tags("fixed", ("moves",))


@pytest.fixture
def registry() -> Registry:  # type: ignore[misc]
    with running() as server:
        yield server


def repository(server: Registry, name: str = "team/slipway") -> Repository:
    http = Http(policy=RetryPolicy(4, 0.001, 0.002), environ={})
    return Repository(parse_reference(f"{server.host}/{name}"), http, {"DOCKER_CONFIG": "/nowhere"})


def job(folder: Path, seed: int = 0, tags: Tags | None = TAGS) -> Job:
    layout(folder, [10, 1000, 20_000], LABELS, seed)
    return Job(read_content(folder), tags)


def send(server: Registry, *jobs: Job) -> list[object]:
    return list(push(list(jobs), lambda: repository(server), Progress()))


def test_tags_come_last_and_again_is_nothing(registry: Registry, tmp_path: Path) -> None:
    one = job(tmp_path / "a")
    send(registry, one)
    puts = [name for name in registry.seen if name.startswith("PUT")]
    assert puts.index("PUT manifests") > max(n for n, name in enumerate(puts) if name == "PUT uploads")
    assert set(registry.manifests) == {one.digest, "fixed", "moves"}
    received, registry.seen[:] = registry.received, []
    send(registry, one)
    assert registry.received == received
    assert not [name for name in registry.seen if not name.startswith(("HEAD", "GET"))]


def test_an_immutable_tag_with_another_digest(registry: Registry, tmp_path: Path) -> None:
    first, second = job(tmp_path / "a"), job(tmp_path / "b", seed=1)
    send(registry, first)
    registry.seen.clear()
    with pytest.raises(PushFailed) as caught:
        send(registry, second)
    assert first.digest in str(caught.value) and second.digest in str(caught.value)
    assert not [name for name in registry.seen if not name.startswith("HEAD")]
    with pytest.raises(PushFailed, match=first.digest):
        dry_run(second, repository(registry))
    moving = Job(second.content, Tags("", ("moves",)))
    send(registry, moving)
    assert registry.manifests["moves"][1] == second.content.manifest


def test_several_images_each_whole_or_absent(registry: Registry, tmp_path: Path) -> None:
    first = job(tmp_path / "a", 1, Tags("one", ()))
    broken = job(tmp_path / "b", 2, Tags("two", ()))
    third = job(tmp_path / "c", 3, Tags("three", ()))
    layer = broken.content.layout.layers[2].path
    layer.write_bytes(b"x" * layer.stat().st_size)
    with pytest.raises(NotAllPushed) as caught:
        send(registry, first, broken, third)
    assert [result.state for result in caught.value.results] == ["whole", "absent", "whole"]
    assert isinstance(caught.value.results[1].error, WrongArtifact)
    assert caught.value.exit_code == 5
    assert "whole" in str(caught.value) and "not there" in str(caught.value)
    assert {"one", "three"} <= set(registry.manifests) and "two" not in registry.manifests


def test_a_dry_run_says_what_a_push_does(registry: Registry, tmp_path: Path) -> None:
    one = job(tmp_path / "a")
    digest = one.content.blobs[1].digest
    registry.blobs[digest] = one.content.layout.layers[0].path.read_bytes()
    plan = dry_run(one, repository(registry))
    assert registry.received == 0 and not registry.manifests
    assert {row["digest"]: row["send"] for row in plan["blobs"]}[digest] is False
    assert "moves  (was not there)" in text([plan])
    send(registry, one)
    said = sum(row["bytes"] for row in plan["blobs"] if row["send"])
    assert registry.received == said
    after = dry_run(one, repository(registry))
    assert after["bytes_to_send"] == 0 and "(stays)" in text([after])


def test_a_registry_that_wrongly_says_it_has_a_blob(registry: Registry, tmp_path: Path) -> None:
    """A manifest is refused for a blob that the registry claimed to have: all blobs are sent then."""
    one = job(tmp_path / "a")
    registry.claims = {one.content.blobs[2].digest}
    send(registry, one)
    assert {blob.digest for blob in one.content.blobs} <= set(registry.blobs)


def test_what_is_attached_is_there_before_the_tags(registry: Registry, tmp_path: Path) -> None:
    paper = Attachment("application/x", (Part("text/plain", b"hello", {}),), {}, "own-tag")
    one = job(tmp_path / "a")
    attached = Job(one.content, TAGS, attached=lambda _repository, _subject: [paper])
    (result,) = push([attached], lambda: repository(registry), Progress())
    listed, native = referrers(repository(registry), one.digest)
    assert [entry["digest"] for entry in listed] == list(result.attached) and not native
    assert listed[0]["artifactType"] == "application/x"
    order = list(registry.manifests)
    assert order.index("fixed") > order.index(tag_of(one.digest))
    assert "own-tag" in registry.manifests
    registry.seen.clear()
    push([attached], lambda: repository(registry), Progress())
    assert not [name for name in registry.seen if not name.startswith(("HEAD", "GET"))]


def test_attachments_of_two_pushes_are_both_listed(registry: Registry, tmp_path: Path) -> None:
    one = job(tmp_path / "a")
    for word in (b"one", b"two"):
        paper = Attachment("application/x", (Part("text/plain", word, {}),), {})
        push([Job(one.content, TAGS, attached=lambda _r, _s, p=paper: [p])], lambda: repository(registry), Progress())  # type: ignore[misc]
    assert len(referrers(repository(registry), one.digest)[0]) == 2


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com", "ecr"),
        ("123456789012.dkr.ecr-fips.us-east-1.amazonaws.com", "ecr"),
        ("123456789012.dkr-ecr.eu-west-1.on.aws", "ecr"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "ecr"),
        ("public.ecr.aws", "ecr-public"),
        ("registry.example.com", "other"),
        ("dkr.ecr.us-west-2.amazonaws.com.example.com", "other"),
    ],
)
def test_registries_are_known_by_name(host: str, kind: str) -> None:
    assert limits.kind_of(host) == kind


def test_limits_stop_before_the_first_byte(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = job(tmp_path / "a")
    monkeypatch.setitem(limits.LIMITS, "other", limits.Limits(10_000, 2, 100, 1))
    with pytest.raises(PushFailed) as caught:
        send(registry, one)
    for word in ("layer 'layer 3'", "3 layers", "manifest", "2 tags"):
        assert word in str(caught.value)
    assert registry.seen == []


def test_where_to() -> None:
    assert str(target("h.example.com/team", None, {})) == "h.example.com/team/slipway"
    assert str(target("h.example.com", "x/y", {})) == "h.example.com/x/y"
    assert str(target(None, None, {"SLIPWAY_REGISTRY": "h.example.com"}, "z.example.com")) == "h.example.com/slipway"
    assert str(target(None, None, {}, "z.example.com/a/b/")) == "z.example.com/a/b/slipway"
    with pytest.raises(UsageError, match="no registry"):
        target(None, None, {})
    with pytest.raises(UsageError):
        target("h.example.com/team:tag", None, {})


def test_own_tags_need_labels_and_given_ones_do_not(tmp_path: Path) -> None:
    layout(tmp_path / "a", [1], {})
    content = read_content(tmp_path / "a")
    args = argparse.Namespace(tags=["mine"], no_moving=False, revision=0)
    assert tags_for(args, content) == Tags("", ("mine",))
    with pytest.raises(UsageError, match="--tag"):
        tags_for(argparse.Namespace(tags=[], no_moving=False, revision=0), content)


def test_a_refused_image_is_not_pushed(tmp_path: Path) -> None:
    layout(tmp_path / "a", [1], LABELS)
    (tmp_path / "a" / "index.json").rename(tmp_path / "a" / "refused.json")
    with pytest.raises(UsageError, match="gate"):
        read_content(tmp_path / "a")
