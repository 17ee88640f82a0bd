"""Reading YAML with lines."""

from __future__ import annotations

import pytest

yaml = pytest.importorskip("yaml")

from serve_app.config import document  # noqa: E402
from serve_app.errors import ConfigError, Problem  # noqa: E402


def test_lines_follow_paths() -> None:
    read = document.parse("a:\n  - b: 1\n  - b: 2\n    c: 3\n")
    assert read.data == {"a": [{"b": 1}, {"b": 2, "c": 3}]}
    assert read.line("a[1].c") == 4
    assert read.line("a[0].b") == 2


def test_a_path_that_is_not_there_has_its_parents_line() -> None:
    read = document.parse("a:\n  b:\n    c: 1\n")
    assert read.line("a.b.missing.deeper") == 2
    assert read.line("nothing") == 0 or read.line("nothing") == 1


def test_a_key_twice_is_refused_with_both_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        document.parse("a: 1\nb: 2\na: 3\n", "x.yaml")
    assert "line 3: a: stands twice, first on line 1" in str(caught.value)
    assert str(caught.value).startswith("x.yaml: 1 problem")


def test_merge_keys_are_no_doubles_and_keep_lines() -> None:
    read = document.parse("base: &b\n  x: 1\n  y: 2\nother:\n  <<: *b\n  y: 3\n")
    assert read.data["other"] == {"x": 1, "y": 3}
    assert read.line("other.x") == 2
    assert read.line("other.y") == 6


@pytest.mark.parametrize("text", ["a: [1, 2", "a: b: c", "\tx: 1", "a: !!python/object:os.system {}"])
def test_what_is_no_yaml_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        document.parse(text)


def test_a_loop_is_refused_and_not_followed_for_ever() -> None:
    with pytest.raises(ConfigError, match="refers to itself"):
        document.parse("a: &a\n  b: *a\n")


def test_problems_come_in_file_order() -> None:
    read = document.parse("a: 1\nb: 2\n")
    with pytest.raises(ConfigError) as caught:
        read.refuse([Problem("b", "wrong"), Problem("a", "bad")])
    assert [p.path for p in caught.value.problems] == ["a", "b"]
