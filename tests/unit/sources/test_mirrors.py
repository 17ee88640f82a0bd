from __future__ import annotations

from pathlib import Path

import pytest

from slipway.errors import UsageError
from slipway.sources.mirrors import Mirrors, parse_mirrors


def test_options_and_variables() -> None:
    environ = {
        "SLIPWAY_MIRROR_WHEELS": "https://a.example.com/simple https://b.example.com/simple",
        "SLIPWAY_MIRROR_DEBIAN": "https://c.example.com/debian",
        "SLIPWAY_MIRROR_DEBIAN_SECURITY": "https://c.example.com/debian-security",
        "SLIPWAY_SNAPSHOT": "https://s.example.com",
    }
    assert parse_mirrors(["debian=https://d.example.com/debian"], environ) == Mirrors(
        wheels=("https://a.example.com/simple", "https://b.example.com/simple"),
        debian=("https://d.example.com/debian",),
        debian_security=("https://c.example.com/debian-security",),
        snapshot=("https://s.example.com",),
    )


def test_repeated_options_keep_their_order() -> None:
    found = parse_mirrors(["wheels=https://b.example.com", "wheels=https://a.example.com"], {})
    assert found.wheels == ("https://b.example.com", "https://a.example.com")


def test_folders(tmp_path: Path) -> None:
    assert parse_mirrors([f"wheels={tmp_path}"], {}).wheels == (str(tmp_path),)
    assert parse_mirrors([f"wheels=file://{tmp_path}"], {}).wheels == (str(tmp_path),)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("wheel=https://a", "wheels=ADDRESS"),
        ("https://a", "no address"),
        ("wheels=/is/not/there", "neither a folder"),
        ("debian=ftp://a", "neither a folder"),
        ("debian=", "neither a folder"),
    ],
)
def test_what_makes_no_sense(option: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mirrors([option], {})
    assert said in str(caught.value)
