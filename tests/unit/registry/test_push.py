from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.registry.upload import Upload
from slipway.sources.http import Http
from slipway.sources.outcome import Refused, Unreachable
from slipway.sources.retry import RetryPolicy
from tests.unit.registry.conftest import log_in
from tests.unit.registry.fake import Registry, running

CONTENT = random.Random(2).randbytes(3_000_000)  # noqa: S311
UPLOAD = Upload.of(CONTENT)


def test_a_blob_is_sent_once(repository: Repository, registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    moved: list[int] = []
    upload = Upload(UPLOAD.digest, UPLOAD.size, tmp_path / "file")
    assert repository.push_blob(upload, moved.append)
    assert registry.blobs == {UPLOAD.digest: CONTENT}
    assert not repository.push_blob(upload, moved.append)
    assert registry.received == len(CONTENT)
    assert sum(moved) == 2 * len(CONTENT)


def test_a_broken_upload_goes_on_at_the_registrys_byte(repository: Repository, registry: Registry) -> None:
    registry.cut_at = [1_000_000, 500_000]
    moved: list[int] = []
    assert repository.push_blob(UPLOAD, moved.append)
    assert registry.blobs[UPLOAD.digest] == CONTENT
    assert registry.received == len(CONTENT)
    assert sum(moved) == len(CONTENT)


def test_a_forgotten_upload_begins_anew(repository: Repository, registry: Registry) -> None:
    registry.cut_at = [1_000_000]
    registry.ranged_uploads = False
    moved: list[int] = []
    assert repository.push_blob(UPLOAD, moved.append)
    assert registry.blobs[UPLOAD.digest] == CONTENT
    assert sum(moved) == len(CONTENT)


@pytest.mark.parametrize("where", ["HEAD blobs", "POST uploads", "PATCH uploads", "PUT uploads"])
@pytest.mark.parametrize("status", [500, 503, 429])
def test_trouble_is_waited_out(repository: Repository, registry: Registry, where: str, status: int) -> None:
    registry.faults[where] = [status, status]
    assert repository.push_blob(UPLOAD)
    assert registry.blobs[UPLOAD.digest] == CONTENT


def test_trouble_without_end_ends(repository: Repository, registry: Registry) -> None:
    registry.faults["PATCH uploads"] = [500] * 100
    with pytest.raises(Unreachable, match="500"):
        repository.push_blob(UPLOAD)


@pytest.mark.parametrize("status", [400, 403, 413])
def test_a_no_is_final_and_says_why(repository: Repository, registry: Registry, status: int) -> None:
    registry.faults["PATCH uploads"] = [status] * 100
    with pytest.raises((Refused, Unreachable), match="a fault"):
        repository.push_blob(UPLOAD)
    assert registry.seen.count("PATCH uploads") == 1


def test_a_lost_answer_to_the_last_request(repository: Repository, registry: Registry) -> None:
    """The registry had closed the upload before it was asked again: the upload is unknown, but the blob is there."""
    registry.faults["PUT uploads"] = [404]
    registry.blobs[UPLOAD.digest] = CONTENT
    registry.faults["HEAD blobs"] = [404]
    assert repository.push_blob(UPLOAD)


def test_taken_over_from_another_repository(repository: Repository, registry: Registry) -> None:
    registry.blobs[UPLOAD.digest] = CONTENT
    registry.faults["HEAD blobs"] = [404]
    assert not repository.push_blob(UPLOAD, mount_from="other")
    assert registry.received == 0


def test_an_empty_blob(repository: Repository, registry: Registry) -> None:
    assert repository.push_blob(Upload.of(b""))
    assert registry.blobs[Upload.of(b"").digest] == b""


def test_manifests_come_back_as_pushed(repository: Repository) -> None:
    digest = repository.put_manifest(b'{"a": 1}', "application/vnd.oci.image.manifest.v1+json")
    found = repository.manifest()
    assert (found.digest, found.content) == (digest, b'{"a": 1}')
    assert found.media_type == "application/vnd.oci.image.manifest.v1+json"
    assert repository.manifest(digest) == found
    assert repository.manifest_digest("none") is None


def test_the_same_manifest_under_an_immutable_tag_is_success(repository: Repository, registry: Registry) -> None:
    registry.immutable = True
    kind = "application/vnd.oci.image.manifest.v1+json"
    repository.put_manifest(b"{}", kind)
    repository.put_manifest(b"{}", kind)
    with pytest.raises(Unreachable, match="tag is immutable"):
        repository.put_manifest(b"{ }", kind)


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_with_a_login(repository: Repository, registry: Registry, config: Path, auth: str) -> None:
    registry.auth = auth
    log_in(config, registry.host)
    assert repository.push_blob(UPLOAD)
    assert repository.put_manifest(b"{}", "application/vnd.oci.image.manifest.v1+json")
    assert repository.manifest().content == b"{}"
    assert registry.seen.count("token") <= 2  # one to push, one to pull


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_without_a_login(repository: Repository, registry: Registry, auth: str) -> None:
    registry.auth = auth
    with pytest.raises(Refused, match="401"):
        repository.push_blob(UPLOAD)


def test_a_login_that_runs_out_during_the_upload(repository: Repository, registry: Registry, config: Path) -> None:
    registry.auth = "bearer"
    log_in(config, registry.host)
    assert repository.blob_size(UPLOAD.digest, pushing=True) is None
    registry.tokens.clear()
    assert repository.push_blob(UPLOAD)


def test_an_expired_login_does_not_keep_from_a_public_image(
    repository: Repository, registry: Registry, config: Path
) -> None:
    registry.auth = "bearer"
    registry.anonymous_pull = True
    registry.manifests["1"] = ("application/vnd.oci.image.manifest.v1+json", b"{}")
    log_in(config, registry.host, password="expired")  # noqa: S106
    assert repository.manifest().content == b"{}"
    with pytest.raises(Refused):
        repository.push_blob(UPLOAD)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 400_000), max_size=3), remembers=st.booleans())
def test_any_breaks_give_the_same_blob(cuts: list[int], remembers: bool) -> None:
    upload = Upload.of(CONTENT[:300_000])
    with running() as registry:
        registry.cut_at, registry.ranged_uploads = list(cuts), remembers
        http = Http(policy=RetryPolicy(8, 0.0001, 0.0002), environ={})
        repository = Repository(parse_reference(f"{registry.host}/x"), http, {"DOCKER_CONFIG": "/nowhere"})
        moved: list[int] = []
        assert repository.push_blob(upload, moved.append)
        assert registry.blobs == {upload.digest: CONTENT[:300_000]}
        assert sum(moved) == upload.size
