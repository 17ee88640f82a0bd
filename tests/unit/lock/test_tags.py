"""Which wheel is taken: against pip's rules, and whatever order the index lists them in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.tags import Tag

from slipway.lock.tags import best, image_tags, platforms, uv_platform

TAGS = image_tags("3.11", "2.36", "amd64")


def take(*files: str, tags: list[Tag] = TAGS) -> str | None:
    found = best([(file, None) for file in files], tags)
    return found[0] if found else None


def test_platforms_go_from_new_to_old_and_keep_the_old_names() -> None:
    names = platforms("2.36", "amd64")
    assert names[0] == "manylinux_2_36_x86_64"
    assert names[-4:] == ["manylinux_2_6_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    assert names.index("manylinux2014_x86_64") == names.index("manylinux_2_17_x86_64") + 1
    assert platforms("2.36", "arm64")[-3:] == ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64"]
    assert (uv_platform("2.36", "amd64"), uv_platform("2.41", "arm64")) == (
        "x86_64-manylinux_2_36",
        "aarch64-manylinux_2_41",
    )


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        (["a-1-py3-none-any.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl"], 1),
        (["a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "a-1-cp311-cp311-manylinux_2_34_x86_64.whl"], 1),
        (["a-1-cp38-abi3-manylinux_2_28_x86_64.whl", "a-1-cp311-cp311-manylinux2014_x86_64.whl"], 1),
        (["a-1-cp38-abi3-manylinux_2_28_x86_64.whl", "a-1-cp310-abi3-manylinux2014_x86_64.whl"], 1),
        (["a-1-py3-none-any.whl", "a-1-py3-none-manylinux2014_x86_64.whl"], 1),
        (["a-1-py2.py3-none-any.whl"], 0),
        (["a-1-cp311-cp311-manylinux_2_37_x86_64.whl"], None),
        (["a-1-cp311-cp311-manylinux_2_28_aarch64.whl", "a-1-cp311-cp311-musllinux_1_2_x86_64.whl"], None),
        (["a-1-cp311-cp311-macosx_11_0_arm64.whl", "a-1-cp311-cp311-win_amd64.whl"], None),
        (["a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1-pp310-pypy310_pp73-manylinux_2_28_x86_64.whl"], None),
        (["a-1-cp311-cp311t-manylinux_2_28_x86_64.whl"], None),
        (["a-1-cp312-abi3-manylinux_2_28_x86_64.whl"], None),
        (["a-1-1-py3-none-any.whl", "a-1-py3-none-any.whl"], 0),
        (["a-1-2-py3-none-any.whl", "a-1-10x-py3-none-any.whl"], 1),
        ([], None),
    ],
)
def test_the_most_specific_one_is_taken(files: list[str], taken: int | None) -> None:
    expected = None if taken is None else files[taken]
    assert take(*files) == expected
    assert take(*reversed(files)) == expected


def test_arm64_takes_its_own() -> None:
    tags = image_tags("3.11", "2.36", "arm64")
    files = ["a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "a-1-cp311-cp311-manylinux_2_28_aarch64.whl"]
    assert take(*files, tags=tags) == files[1]


FILES = [
    "a-1-py3-none-any.whl",
    "a-1-py2.py3-none-any.whl",
    "a-1-1-py3-none-any.whl",
    "a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "a-1-cp311-cp311-manylinux_2_28_x86_64.whl",
    "a-1-cp39-abi3-manylinux_2_28_x86_64.whl",
    "a-1-cp311-cp311-win_amd64.whl",
    "a-1-cp312-cp312-manylinux_2_28_x86_64.whl",
]


@settings(deadline=None)
@given(st.permutations(FILES), st.integers(0, len(FILES)))
def test_the_order_of_the_index_does_not_matter(files: list[str], count: int) -> None:
    assert take(*files[:count]) == take(*sorted(files[:count]))
