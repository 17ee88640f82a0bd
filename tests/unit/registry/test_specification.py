"""What the OCI distribution specification 1.1 asks of a client, as far as no other test holds it (the table in
docs/push.md names all)."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from slipway.cli import common
from slipway.registry.client import Repository
from slipway.registry.pull import pull_blob
from slipway.registry.referrers import Attachment, Part, attach, referrers, tag_of
from slipway.registry.upload import Upload
from slipway.sources.outcome import Absent, WrongBytes
from tests.unit.registry.conftest import log_in
from tests.unit.registry.fake import Registry, running

CONTENT = random.Random(3).randbytes(900_000)  # noqa: S311
UPLOAD = Upload.of(CONTENT)
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def test_an_answer_that_got_lost_is_not_sent_for_again(repository: Repository, registry: Registry) -> None:
    """The last chunk had arrived: the status of the upload says so."""
    registry.cut_at = [len(CONTENT)]
    assert repository.push_blob(UPLOAD)
    assert registry.received == len(CONTENT)


def test_at_another_byte_than_thought(repository: Repository, registry: Registry) -> None:
    registry.faults["PATCH uploads"] = [416]
    assert repository.push_blob(UPLOAD)
    assert registry.blobs[UPLOAD.digest] == CONTENT
    assert "GET uploads" in registry.seen


def test_a_mount_that_is_not_granted_becomes_an_upload(repository: Repository, registry: Registry) -> None:
    registry.blobs[UPLOAD.digest] = CONTENT
    registry.faults["HEAD blobs"] = [404]
    assert repository.push_blob(UPLOAD, mount_from="not-that-one")
    assert registry.received == len(CONTENT)
    assert registry.seen.count("POST uploads") == 1


def test_an_upload_that_goes_on_at_another_server(repository: Repository, registry: Registry, config: Path) -> None:
    """Location may be anywhere; the login is the registry's and stays there."""
    registry.auth = "basic"
    log_in(config, registry.host)
    with running() as elsewhere:
        registry.elsewhere = elsewhere
        assert repository.push_blob(UPLOAD)
        assert elsewhere.blobs[UPLOAD.digest] == CONTENT
        assert set(elsewhere.authorizations) == {""}
    assert any(registry.authorizations)


def test_a_download_that_goes_on_at_another_server(
    repository: Repository, registry: Registry, config: Path, tmp_path: Path
) -> None:
    registry.auth = "basic"
    log_in(config, registry.host)
    with running() as elsewhere:
        registry.elsewhere = elsewhere
        elsewhere.blobs[UPLOAD.digest] = CONTENT
        pull_blob(repository, UPLOAD.digest, tmp_path / "blob", lambda _count: None)
        assert (tmp_path / "blob").read_bytes() == CONTENT
        assert set(elsewhere.authorizations) == {""}


@pytest.mark.parametrize("ignores_ranges", [False, True])
def test_a_download_is_taken_up_again(
    repository: Repository, registry: Registry, tmp_path: Path, ignores_ranges: bool
) -> None:
    registry.blobs[UPLOAD.digest] = CONTENT
    registry.cut_pulls_at, registry.ignores_ranges = [300_000, 200_000], ignores_ranges
    moved: list[int] = []
    pull_blob(repository, UPLOAD.digest, tmp_path / "blob", moved.append)
    assert (tmp_path / "blob").read_bytes() == CONTENT
    assert sum(moved) == len(CONTENT)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["blob"]


def test_other_bytes_than_were_asked_for(repository: Repository, registry: Registry, tmp_path: Path) -> None:
    digest = repository.put_manifest(b"{}", MANIFEST)
    registry.blobs[UPLOAD.digest] = CONTENT
    registry.altered = {digest, UPLOAD.digest}
    with pytest.raises(WrongBytes):
        repository.manifest(digest)
    with pytest.raises(WrongBytes):
        repository.blob(UPLOAD.digest)
    with pytest.raises(WrongBytes):
        pull_blob(repository, UPLOAD.digest, tmp_path / "blob", lambda _count: None)
    assert not (tmp_path / "blob").exists()


def test_other_bytes_than_the_registry_says_a_tag_has(repository: Repository, registry: Registry) -> None:
    repository.put_manifest(b"{}", MANIFEST)
    registry.altered = {"1"}
    with pytest.raises(WrongBytes):
        repository.manifest()


def test_docker_content_digest_is_optional(repository: Repository, registry: Registry) -> None:
    registry.names_digests = False
    digest = repository.put_manifest(b"{}", MANIFEST)
    assert repository.manifest_digest("1") == digest
    assert repository.put_manifest(b"{}", MANIFEST) == digest
    assert registry.seen.count("PUT manifests") == 1


def test_a_manifest_is_sent_and_asked_for_by_its_media_type(repository: Repository, registry: Registry) -> None:
    repository.put_manifest(b'{"schemaVersion": 2}', INDEX)
    assert registry.manifests["1"][0] == INDEX
    assert repository.manifest().media_type == INDEX


def attachment(number: int) -> Attachment:
    return Attachment("application/vnd.example", (Part("text/plain", b"%d" % number, {}),), {"number": str(number)})


@pytest.fixture
def subject(repository: Repository) -> dict[str, object]:
    digest = repository.put_manifest(b"{}", MANIFEST)
    return {"mediaType": MANIFEST, "digest": digest, "size": 2}


def test_the_referrers_api_page_by_page(repository: Repository, registry: Registry, subject: dict[str, object]) -> None:
    registry.referrers_api = True
    digests = attach(repository, subject, [attachment(number) for number in range(5)])
    found, native = referrers(repository, str(subject["digest"]))
    assert native and {entry["digest"] for entry in found} == set(digests)
    assert registry.seen.count("GET referrers") == 1 + 5
    assert tag_of(str(subject["digest"])) not in registry.manifests


def test_the_fallback_tag_names_type_and_annotations(
    repository: Repository, registry: Registry, subject: dict[str, object]
) -> None:
    digests = attach(repository, subject, [attachment(1)])
    attach(repository, subject, [attachment(2)])
    found, native = referrers(repository, str(subject["digest"]))
    assert not native and digests[0] in {entry["digest"] for entry in found}
    kind, content = registry.manifests[tag_of(str(subject["digest"]))]
    assert kind == INDEX
    assert {entry["artifactType"] for entry in json.loads(content)["manifests"]} == {"application/vnd.example"}
    assert {entry["annotations"]["number"] for entry in json.loads(content)["manifests"]} == {"1", "2"}


def test_a_registry_that_says_oci_subject_keeps_the_list_itself(
    repository: Repository, registry: Registry, subject: dict[str, object]
) -> None:
    """Its API may list nothing yet, and may answer 404 until it does."""
    registry.subject_header = True
    attach(repository, subject, [attachment(1)])
    assert tag_of(str(subject["digest"])) not in registry.manifests


def test_what_is_attached_names_its_subject(repository: Repository, subject: dict[str, object]) -> None:
    [digest] = attach(repository, subject, [attachment(1)])
    document = json.loads(repository.manifest(digest).content)
    assert document["subject"] == subject
    assert document["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"


def test_warnings_are_passed_on_once(repository: Repository, registry: Registry) -> None:
    said: list[str] = []
    repository.http.notify = said.append
    registry.warning = '299 - "goes away \\"soon\\"\x07", 199 - "not ours"'
    repository.manifest_digest("1")
    repository.manifest_digest("2")
    assert said == [f'{registry.host} says: goes away "soon"']


def test_an_error_without_json_is_an_error(repository: Repository, registry: Registry) -> None:
    """No body, and no codes in it: the status says enough."""
    registry.faults["GET manifests"] = [404]
    with pytest.raises(Absent, match="404"):
        repository.manifest("1")


def test_the_documentation_names_tests_that_are_there() -> None:
    page = (common.ROOT / "docs" / "push.md").read_text()
    table = page[page.index("## What the distribution specification asks") :].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)", table))
    sources = [*Path(__file__).parents[1].glob("*/test_*.py"), common.ROOT / "tests" / "container" / "test_push.py"]
    there = {name for path in sources for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    assert len(named) > 20
    assert not named - there
