"""Bills of materials, provenance and signatures: complete, byte-stable, and nothing but what was signed verifies."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from slipway import lock as locks
from slipway.lock import file
from slipway.lock.model import Deb, Lock, Source, Wheel
from slipway.progress import Progress
from slipway.push.content import read_content
from slipway.push.push import Job, push
from slipway.push.tags import Tags
from slipway.registry.client import Repository
from slipway.registry.pull import pull, resolve
from slipway.registry.reference import parse_reference
from slipway.registry.referrers import attach
from slipway.registry.transfer import Transfer
from slipway.sources.http import Http
from slipway.sources.retry import RetryPolicy
from slipway.supply import cosign
from slipway.supply.attach import attachments, bare, index_documents, papers
from slipway.supply.components import Licence, components, dump_licences, read_licences, table
from slipway.supply.cyclonedx import cyclonedx
from slipway.supply.licences import of_copyright, of_metadata
from slipway.supply.provenance import builder_of, provenance
from slipway.supply.signing import is_signed, open_key, open_public
from slipway.supply.spdx import spdx
from slipway.supply.verify import check
from slipway.testing.layouts import layout, real_labels
from tests.unit.registry.fake import Registry, running

LOCK = Lock(
    "2.60",
    "cpu",
    "amd64",
    "sha256:0",
    wheels=(Wheel("ray", "2.60.0", "ray-2.60.0.whl", 5, "a" * 64), Wheel("vllm", "0.29.0+cpu", "v.whl", 5, "b" * 64)),
    debs=(
        Deb("g++", "4:12.2.0-3", "g++.deb", 5, "c" * 64, "bookworm", "main", "p", "amd64", ("image",)),
        Deb("make", "4.3-4.1", "make.deb", 5, "d" * 64, "bookworm", "main", "p", "amd64", ("build",)),
    ),
    sources=(Source("libfabric", "2.1.0", "l.tar.xz", 5, "e" * 64, "trixie", "main", "p"),),
)
LICENCES = {
    "a" * 64: Licence("Apache-2.0", "Apache 2.0", "https://example.com/ray"),
    "c" * 64: Licence("", "GPL", "gcc 1"),
}


def test_every_hash_licence_and_source_stands_in_both() -> None:
    found = components(LOCK, LICENCES)
    for document in (spdx(LOCK, "f" * 64, found), cyclonedx(LOCK, "f" * 64, found)):
        for artifact in (*LOCK.wheels, *LOCK.debs, *LOCK.sources):
            assert artifact.sha256.encode() in document
        for words in (b"Apache-2.0", b"GPL", b"https://example.com/ray", b"gcc 1", b"pkg:pypi/vllm@0.29.0%2Bcpu"):
            assert words in document
        assert b"pkg:deb/debian/g%2B%2B@4%3A12.2.0-3?arch=amd64" in document


def test_what_only_compiles_is_not_in_the_image() -> None:
    document = json.loads(spdx(LOCK, "f" * 64, components(LOCK, {})))
    kinds = {
        (relation["spdxElementId"], relation["relatedSpdxElement"]): relation["relationshipType"]
        for relation in document["relationships"]
    }
    assert kinds["SPDXRef-deb-make-4.3-4.1-amd64", "SPDXRef-image"] == "BUILD_TOOL_OF"
    assert kinds["SPDXRef-image", "SPDXRef-wheel-ray-2.60.0"] == "CONTAINS"
    scopes = {
        row["name"]: row["scope"] for row in json.loads(cyclonedx(LOCK, "f" * 64, components(LOCK, {})))["components"]
    }
    assert scopes["make"] == "excluded" and scopes["ray"] == "required"
    assert "make" not in table(components(LOCK, {})) and "ray\t2.60.0" in table(components(LOCK, LICENCES))


def test_ids_are_unique_and_of_allowed_characters() -> None:
    for path in sorted(locks.FOLDER.glob("*.toml")):
        ids = [one.id for one in components(file.read(path), {})]
        assert len(set(ids)) == len(ids)
        assert all(c.isascii() and (c.isalnum() or c in ".-") for name in ids for c in name)


def test_bytes_depend_on_the_lock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = components(LOCK, LICENCES)
    before = [spdx(LOCK, "f" * 64, found), cyclonedx(LOCK, "f" * 64, found)]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("CODEBUILD_BUILD_ARN", "arn:aws:codebuild:us-west-2:1:build/x:1")
    assert [spdx(LOCK, "f" * 64, found), cyclonedx(LOCK, "f" * 64, found)] == before
    other = dataclasses.replace(LOCK, wheels=LOCK.wheels[:1])
    assert spdx(other, "f" * 64, components(other, LICENCES)) != before[0]


def test_provenance_names_the_lock_and_who_built() -> None:
    labels = {"io.slipway.release": "2.60", "io.slipway.lock": "sha256:" + "f" * 64}
    told = provenance(labels, "amd64", components(LOCK, {}), builder_of({}))
    materials = told["buildDefinition"]["resolvedDependencies"]
    assert {row["digest"]["sha256"] for row in materials} == {c * 64 for c in "abcdef"}
    assert told["runDetails"] == {"builder": {"id": "https://slipway.invalid/builder/local"}}
    arn = "arn:aws:codebuild:us-west-2:1:build/x:1"
    assert builder_of({"CODEBUILD_BUILD_ARN": arn}) == {
        "id": "arn:aws:codebuild:us-west-2:1:project/x",
        "invocation": arn,
    }


@pytest.mark.parametrize(
    ("metadata", "expression", "words"),
    [
        ("License-Expression: Apache-2.0 OR MIT\n", "Apache-2.0 OR MIT", "Apache-2.0 OR MIT"),
        ("License: BSD 3-Clause\n", "", "BSD 3-Clause"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n", "", "MIT License"),
        ("License: Copyright 2020\n        Permission is hereby granted\n", "", "Copyright 2020"),
        ("Name: x\n", "", ""),
    ],
)
def test_licences_of_wheels(metadata: str, expression: str, words: str) -> None:
    found = of_metadata(metadata + "Project-URL: Source, https://example.com/x\n\nLicense: of the description\n")
    assert (found.expression, found.text, found.source) == (expression, words, "https://example.com/x")


def test_licences_of_debs() -> None:
    head = "Format: packaging-manuals/copyright-format/1.0/\n\n"
    assert (
        of_copyright(f"{head}Files: *\nLicense: GPL-2+\n\nFiles: a\nLicense: Expat\n")[0] == "GPL-2.0-or-later AND MIT"
    )
    assert of_copyright(f"{head}Files: *\nLicense: GPL-2 or Expat\n") == ("", "GPL-2 or Expat")
    assert of_copyright(f"{head}Files: *\nLicense: public-domain\n") == ("", "public-domain")
    assert of_copyright("This package was debianized by hand\nLicense: GPL-2\n") == ("", "")


def test_licences_are_kept_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "licences.json").write_text(dump_licences(LICENCES))
    assert read_licences(tmp_path) == LICENCES
    assert read_licences(tmp_path / "nowhere") == {}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (apt-get install openssl)")
    folder = tmp_path_factory.mktemp("keys")
    made = {}
    for name in ("old", "new"):
        key, public = folder / f"{name}.pem", folder / f"{name}.pub"
        words = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(key)]
        subprocess.run(words, check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public)], check=True)
        made |= {name: key, f"{name}.pub": public}
    return made


def test_only_what_was_signed_verifies(keys: dict[str, Path]) -> None:
    signature = open_key(str(keys["old"])).sign(b"data")
    public = open_public(str(keys["old.pub"]))
    assert is_signed(b"data", signature, public)
    assert not is_signed(b"date", signature, public)
    assert not is_signed(b"data", signature, open_public(str(keys["new.pub"])))
    assert not is_signed(b"data", "AAAA", public) and not is_signed(b"data", "not base64!", public)


class Place:
    """A pushed image with everything attached, in a registry of this process."""

    def __init__(self, server: Registry, folder: Path) -> None:
        self.server = server
        layout(folder, [10, 1000], real_labels())
        self.content = read_content(folder)
        self.papers = papers(self.content.labels, "amd64", {})

    @property
    def repository(self) -> Repository:
        http = Http(policy=RetryPolicy(4, 0.001, 0.002), environ={})
        reference = parse_reference(f"{self.server.host}/slipway@{self.content.digest}")
        return Repository(reference, http, {"DOCKER_CONFIG": "/nowhere"})

    def push(self, key: Path | None, attest: str = "referrers") -> None:
        attached = attachments(self.content, str(key) if key else None, attest=attest, progress=Progress())
        push([Job(self.content, Tags("fixed", ()), attached=attached)], lambda: self.repository, Progress())

    def verdict(self, public: Path | None) -> dict[str, str]:
        image = resolve(self.repository, None)
        key = open_public(str(public)) if public else None
        return {one.name: one.state for one in check(self.repository, image, self.papers, key)}


@pytest.fixture
def place(tmp_path: Path) -> Place:  # type: ignore[misc]
    with running() as server:
        yield Place(server, tmp_path / "image")


NAMES = ("SBOM (SPDX)", "SBOM (CycloneDX)", "provenance")
RIGHT = {"signature": "right", **dict.fromkeys(NAMES, "right")}


def test_signed_and_verified_and_not_signed_twice(place: Place, keys: dict[str, Path]) -> None:
    place.push(keys["old"])
    assert place.verdict(keys["old.pub"]) == RIGHT
    manifests = dict(place.server.manifests)
    place.push(keys["old"])
    assert place.server.manifests == manifests


def test_a_new_key_leaves_the_old_signatures(place: Place, keys: dict[str, Path]) -> None:
    place.push(keys["old"])
    assert place.verdict(keys["new.pub"])["signature"] == "wrong"
    key = open_key(str(keys["new"]))
    repository = place.repository
    where = f"{repository.reference.host}/{repository.reference.name}"
    statements = place.papers.statements(where, place.content.digest)
    found = cosign.signature(repository, place.content.digest, key)
    found += cosign.attestations(repository, place.content.digest, key, statements)
    attach(repository, place.content.descriptor, found)
    assert place.verdict(keys["old.pub"]) == RIGHT
    assert place.verdict(keys["new.pub"]) == RIGHT


def test_unsigned_papers_are_compared_and_are_no_signature(place: Place) -> None:
    place.push(None)
    assert place.verdict(None) == {"signature": "not checked", **dict.fromkeys(NAMES, "right")}


def test_nothing_there_is_not_right(place: Place, keys: dict[str, Path]) -> None:
    place.push(None, "none")
    assert place.verdict(keys["old.pub"]) == {"signature": "not there", **dict.fromkeys(NAMES, "not there")}


def test_papers_of_another_image_do_not_count(place: Place, keys: dict[str, Path]) -> None:
    place.push(None, "none")
    other = "sha256:" + "9" * 64
    key = open_key(str(keys["old"]))
    repository = place.repository
    tag = place.content.digest.replace(":", "-")
    found = cosign.attestations(repository, other, key, place.papers.statements("x", other))
    found += cosign.signature(repository, other, key)
    for attachment in found:
        ending = attachment.tag.rpartition(".")[2]
        attach(repository, place.content.descriptor, [dataclasses.replace(attachment, tag=f"{tag}.{ending}")])
    attach(repository, place.content.descriptor, bare(place.papers, "x", other))
    assert place.verdict(keys["old.pub"]) == {"signature": "wrong", **dict.fromkeys(NAMES, "not there")}
    assert place.verdict(None)["provenance"] == "not there"


def test_an_altered_bill_is_wrong(place: Place, keys: dict[str, Path]) -> None:
    place.push(keys["old"])
    place.papers = dataclasses.replace(place.papers, spdx=place.papers.spdx.replace(b"2.60", b"2.61"))
    assert place.verdict(keys["old.pub"])["SBOM (SPDX)"] == "wrong"
    assert place.verdict(keys["old.pub"])["provenance"] == "right"


def test_an_index_with_attestations_is_one_image(place: Place, tmp_path: Path) -> None:
    job = Job(place.content, Tags("fixed", ()), index_documents(place.content))
    push([job], lambda: place.repository, Progress())
    top = json.loads(place.server.manifests["fixed"][1])
    platforms = [entry["platform"] for entry in top["manifests"]]
    assert {"architecture": "amd64", "os": "linux"} in platforms
    repository = Repository(
        parse_reference(f"{place.server.host}/slipway:fixed"), Http(environ={}), {"DOCKER_CONFIG": "/nowhere"}
    )
    image = resolve(repository, None)
    assert (image.digest, image.manifest_digest) == (job.digest, place.content.digest)
    folder = pull(repository, None, tmp_path / "pulled", Progress())
    assert read_content(folder).digest == place.content.digest
    for blob in place.content.blobs:
        content = (folder / "blobs" / "sha256" / blob.digest[7:]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == blob.digest[7:]


def test_a_copy_takes_everything_that_proves_it(place: Place, keys: dict[str, Path]) -> None:
    place.push(keys["old"])
    with running() as other:
        target = Repository(parse_reference(f"{other.host}/elsewhere"), Http(environ={}), {"DOCKER_CONFIG": "/nowhere"})
        with Progress().step("copy") as step:
            copied = Transfer(place.repository, target, step).run(("kept",))
        assert copied.digest == place.content.digest and copied.sent > 0
        assert other.manifests["kept"][1] == place.content.manifest
        image = resolve(
            Repository(
                parse_reference(f"{other.host}/elsewhere:kept"), Http(environ={}), {"DOCKER_CONFIG": "/nowhere"}
            ),
            None,
        )
        verdict = {one.name: one.state for one in check(target, image, place.papers, open_public(str(keys["old.pub"])))}
        assert verdict == RIGHT
        with Progress().step("copy") as step:
            assert Transfer(place.repository, target, step).run(("kept",)).sent == 0
