"""Tags are a function of labels: what they say, what they never say, and that none can be a moving one."""

from __future__ import annotations

import fnmatch
import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slipway.ecr.registry import MOVING
from slipway.errors import GateRefused, UsageError
from slipway.push.tags import check_given, image_tags, index_tags, is_development

LABELS = {
    "io.slipway.release": "2.60",
    "io.slipway.variant": "cuda",
    "io.slipway.fabric": "installer",
    "io.slipway.lock": "sha256:1a2b3c4d5e6f" + "0" * 52,
    "io.slipway.version.ray": "2.60.0",
    "io.slipway.version.vllm": "0.29.0",
    "io.slipway.version.nixl": "1.3.2",
    "io.slipway.version.cuda": "13.0.96",
    "io.slipway.version.python": "3.11",
    "io.slipway.version.debian": "12",
}
CPU = {**LABELS, "io.slipway.variant": "cpu", "io.slipway.version.cuda": "", "io.slipway.fabric": "source"}


def test_the_documented_ones() -> None:
    tags = image_tags(LABELS, "amd64")
    assert tags.immutable == "2.60.0-vllm0.29.0-nixl1.3.2-cu13-py311-debian12-1a2b3c4d5e"
    assert tags.moving == ("2.60-cuda",)


def test_local_versions_architecture_and_revision() -> None:
    labels = {**CPU, "io.slipway.version.vllm": "0.29.0+cpu"}
    tags = image_tags(labels, "arm64", 2)
    assert tags.immutable == "2.60.0-vllm0.29.0-nixl1.3.2-cpu-py311-debian12-1a2b3c4d5e-arm64-r2"
    assert tags.moving == ("2.60-cpu-arm64",)


@pytest.mark.parametrize("fabric", ["source", "stand-in", ""])
def test_an_image_without_the_installers_fabric_never_has_a_production_tag(fabric: str) -> None:
    labels = {**LABELS, "io.slipway.fabric": fabric}
    tags = image_tags(labels, "amd64")
    assert is_development(labels)
    assert all(tag.endswith("-fabric") for tag in tags.all)
    for asked in (*image_tags(LABELS, "amd64").all, "2.60-cuda", "2.60-cuda-arm64"):
        with pytest.raises(GateRefused, match="fabric"):
            check_given(asked, labels)
    for tag in tags.all:
        check_given(tag, labels)
    check_given("try-this", labels)


def test_the_cpu_variant_is_no_production_image_and_may_come_from_source() -> None:
    assert not is_development(CPU)
    assert image_tags(CPU, "amd64").moving == ("2.60-cpu",)


@pytest.mark.parametrize("name", [name for name in LABELS if not name.endswith(("cuda", "fabric"))])
def test_a_label_that_is_missing_is_told(name: str) -> None:
    labels = {key: value for key, value in LABELS.items() if key != name}
    with pytest.raises(UsageError, match=name):
        image_tags(labels, "amd64")


@pytest.mark.parametrize("tag", ["", "-x", ".x", "a b", "a/b", "x" * 129])
def test_what_is_no_tag(tag: str) -> None:
    with pytest.raises(UsageError):
        check_given(tag, LABELS)


def test_an_index_depends_on_its_images_and_not_on_their_order() -> None:
    other = {**LABELS, "io.slipway.lock": "sha256:" + "9" * 64}
    tags = index_tags([LABELS, other])
    assert tags == index_tags([other, LABELS])
    joined = hashlib.sha256("\n".join(sorted([LABELS["io.slipway.lock"], other["io.slipway.lock"]])).encode())
    assert tags.immutable.endswith(joined.hexdigest()[:10])
    assert tags.moving == ("2.60-cuda",)
    assert index_tags([LABELS]) == image_tags(LABELS, "amd64")
    with pytest.raises(UsageError, match="variant"):
        index_tags([LABELS, {**CPU, "io.slipway.fabric": "installer"}])


@given(
    lock=st.text("0123456789abcdef", min_size=64, max_size=64),
    arch=st.sampled_from(["amd64", "arm64"]),
    revision=st.integers(0, 99),
    labels=st.sampled_from([LABELS, CPU, {**LABELS, "io.slipway.fabric": "source"}]),
)
@example(lock="0" * 64, arch="arm64", revision=0, labels=CPU)
def test_ecr_lets_no_immutable_tag_move(lock: str, arch: str, revision: int, labels: dict[str, str]) -> None:
    tags = image_tags({**labels, "io.slipway.lock": f"sha256:{lock}"}, arch, revision)
    assert not any(fnmatch.fnmatchcase(tags.immutable, pattern) for pattern in MOVING)
    assert all(any(fnmatch.fnmatchcase(tag, pattern) for pattern in MOVING) for tag in tags.moving)
    assert lock[:10] in tags.immutable
    assert len(tags.immutable) <= 128
