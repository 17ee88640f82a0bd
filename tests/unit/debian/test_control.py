"""deb822 paragraphs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.debian.control import field, paragraphs, sorted_paragraphs

STATUS = "Package: b\nArchitecture: amd64\nDescription: two\n lines\n\nPackage: a\nArchitecture: all\n\n"


def test_field() -> None:
    assert field("Package: a\nDepends: b,\n c\nX-Y:z", "depends") == "b,"
    assert field("Package: a\nX-Y:z", "X-Y") == "z"
    assert field("Package: a", "Version") == ""
    assert field("Description: x\n Version: no field", "Version") == ""


def test_sorted_by_package_and_nothing_lost() -> None:
    assert sorted_paragraphs(STATUS) == "\n\n".join(reversed(paragraphs(STATUS))) + "\n\n"


@settings(deadline=None)
@given(st.permutations(["Package: a", "Package: b\nArchitecture: x", "Package: b\nArchitecture: y\n.", "Package: c"]))
def test_order_of_installing_is_forgotten(parts: list[str]) -> None:
    assert sorted_paragraphs("\n\n".join(parts)) == sorted_paragraphs("\n\n".join(sorted(parts)))
