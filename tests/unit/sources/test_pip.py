from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.sources import pip
from slipway.sources.pip import default_index, from_options, parse_config_list

VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip() != "")
OPTIONS = st.from_regex(r"[a-z]{1,8}(-[a-z]{1,8}){0,2}", fullmatch=True)
SECTIONS = ["global", "install", "download", "wheel", ":env:"]


@given(st.dictionaries(st.tuples(st.sampled_from(SECTIONS), OPTIONS), VALUES))
def test_the_strongest_section_counts(settings: dict[tuple[str, str], str]) -> None:
    text = "\n".join(f"{section}.{option}={value!r}" for (section, option), value in settings.items())
    expected: dict[str, str] = {}
    for section in SECTIONS:
        expected |= {option: value for (found, option), value in settings.items() if found == section}
    assert parse_config_list(text) == expected


@given(st.text())
def test_anything_is_read_without_an_error(text: str) -> None:
    parse_config_list(text)
    default_index(text)


@given(st.dictionaries(st.sampled_from(["timeout", "no-index", "trusted-host", "find-links", "index-url"]), st.text()))
def test_any_value_is_taken_without_an_error(options: dict[str, str]) -> None:
    from_options(options)


def test_empty_values_count_as_not_set() -> None:
    assert parse_config_list("global.index-url='https://a'\n:env:.index-url=''") == {"index-url": "https://a"}


def test_what_is_configured() -> None:
    config = from_options(
        {
            "index-url": "https://user:secret@index.example.com/simple",
            "extra-index-url": "\nhttps://b.example.com/simple\nfile:///srv/simple",
            "find-links": "/srv/wheels https://c.example.com/wheels",
            "trusted-host": "b.example.com",
            "cert": "/etc/ca.pem",
            "proxy": "http://proxy:3128",
            "timeout": "180",
        },
        "https://default.example.com/simple",
    )
    assert config.index == "https://user:secret@index.example.com/simple"
    assert not config.index_is_default
    assert config.extra_indexes == ("https://b.example.com/simple", "file:///srv/simple")
    assert config.find_links == ("/srv/wheels", "https://c.example.com/wheels")
    assert config.http.ca_files == (Path("/etc/ca.pem"),)
    assert config.http.proxies == {"http": "http://proxy:3128", "https": "http://proxy:3128"}
    assert config.http.timeout == 180


def test_no_index() -> None:
    config = from_options({"no-index": "true", "index-url": "https://a", "extra-index-url": "https://b"}, "https://c")
    assert (config.index, config.extra_indexes) == ("", ())


def test_the_default_index() -> None:
    config = from_options({}, "https://default.example.com/simple")
    assert config.index == "https://default.example.com/simple" and config.index_is_default


def test_the_default_out_of_pips_help_also_when_wrapped() -> None:
    text = """
  -i, --index-url <url>       Base URL of the Python Package Index (default
                              https://index.example.com/simple). This should point to a
"""
    assert default_index(text) == "https://index.example.com/simple"


def test_the_machines_pip_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one test with a real pip: a configuration file and a variable, the variable wins."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this Python has no pip")
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://a.example.com/simple\nfind-links =\n    /one\n    /two words\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://b.example.com/simple https://c.example.com/simple")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    found = pip.ask()
    assert found.index == "https://a.example.com/simple"
    assert found.extra_indexes == ("https://b.example.com/simple", "https://c.example.com/simple")
    assert found.find_links[:2] == ("/one", "/two")


def test_a_machine_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip, "pythons", lambda: ["/bin/false"])
    assert pip.ask() == pip.PipConfig()
