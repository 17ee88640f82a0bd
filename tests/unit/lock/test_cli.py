"""`build.py lock` from arguments to files and exit codes; indexes and archives are stood in for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slipway import lock as locks
from slipway.ahead import abi
from slipway.cli import common
from slipway.cli import lock as verb
from slipway.cli.main import main
from slipway.errors import InvalidInput, MissingError, Problem, UsageError
from slipway.gates.model import Finding
from slipway.inspect.image import Image
from slipway.inspect.layout import Layout
from slipway.lock import file
from slipway.lock.model import Artifact, Deb, EfaInstaller, Lock, Wheel
from slipway.pins import Selection
from slipway.sources.mirrors import Mirrors

SAMPLE = Path(__file__).parents[1] / "pins" / "sample.toml"
A, B = "a" * 64, "b" * 64


def wheel(name: str, version: str, sha256: str = A) -> Wheel:
    return Wheel(name, version, f"{name}-{version}-py3-none-any.whl", 1, sha256)


DEB = Deb("bash", "5", "bash_5_amd64.deb", 1, A, "bookworm", "main", "pool/bash_5_amd64.deb", "amd64", ("image",))


@dataclass
class World:
    """A checkout in a folder, and what the indexes would give."""

    root: Path
    wheels: tuple[Wheel, ...] = (wheel("idna", "1"),)
    asked: list[tuple[str, Lock | None, tuple[str, ...]]] = field(default_factory=list)
    failure: Exception | None = None
    impossible: UsageError | None = None
    fetched: list[str] = field(default_factory=list)
    unfit: tuple[Finding, ...] = ()
    no_network: MissingError | None = None

    def fetch(self, artifacts: Sequence[Artifact], *rest: object) -> None:
        if self.no_network is not None:
            raise self.no_network
        self.fetched += [artifact.label for artifact in artifacts]

    def foresee(self, selection: Selection, lock: Lock, *rest: object) -> abi.Foreseen:
        image = Image(Layout(Path(), "", {}, {}, (), 0), ())
        return abi.Foreseen(image, self.unfit, (), lock.artifacts)

    def resolve(self, selection: Selection, old: Lock | None, upgrade: Sequence[str], mirrors: Mirrors) -> Lock:
        self.asked.append((selection.label, old, tuple(upgrade)))
        if self.failure is not None:
            raise self.failure
        return Lock(selection.release, selection.variant, selection.arch, selection.checksum, self.wheels, (DEB,))

    def path(self, variant: str, arch: str = "amd64") -> Path:
        return self.root / "locks" / f"1.0-{variant}-{arch}.toml"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    shutil.copy(SAMPLE, tmp_path / "versions.toml")
    found = World(tmp_path)
    monkeypatch.setattr(common, "ROOT", tmp_path)
    monkeypatch.setattr(locks, "FOLDER", tmp_path / "locks")
    monkeypatch.setattr(verb, "resolve", found.resolve)
    monkeypatch.setattr(verb, "try_wheels", lambda selection, mirrors: found.impossible)
    monkeypatch.setattr("slipway.cli.main.verbs", lambda: ["lock"])
    monkeypatch.setenv("SLIPWAY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(verb, "fetch_artifacts", found.fetch)
    monkeypatch.setattr(verb.abi, "foresee", found.foresee)
    return found


def test_without_names_all_pinned_images_are_locked(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock"]) == 0
    assert [label for label, _, _ in world.asked] == ["1.0-cpu-amd64", "1.0-cuda-amd64"]
    assert file.read(world.path("cpu")).wheels == world.wheels
    assert "1.0-cpu-amd64: 2 artifacts" in capsys.readouterr().out
    assert (world.path("cpu").stat().st_mode & 0o777) == 0o644


def test_another_architecture_is_locked_once_it_has_a_lock(world: World) -> None:
    assert main(["lock", "--variant", "cuda", "--arch", "arm64"]) == 0
    assert world.path("cuda", "arm64").exists()
    assert main(["lock"]) == 0
    assert [label for label, _, _ in world.asked][1:] == ["1.0-cpu-amd64", "1.0-cuda-amd64", "1.0-cuda-arm64"]


def test_the_old_lock_is_kept_to_and_upgrades_are_passed_on(world: World) -> None:
    main(["lock", "--variant", "cpu"])
    old = file.read(world.path("cpu"))
    world.wheels = (wheel("idna", "2"),)
    assert main(["lock", "--variant", "cpu", "--upgrade", "idna", "--upgrade", "debian"]) == 0
    assert world.asked[-1] == ("1.0-cpu-amd64", old, ("idna", "debian"))
    assert main(["lock", "--variant", "cpu", "--upgrade", "all"]) == 0
    assert world.asked[-1][1] is None


def test_an_output_folder_leaves_the_committed_locks_alone(world: World, tmp_path: Path) -> None:
    main(["lock", "--variant", "cpu"])
    before = world.path("cpu").read_text()
    world.wheels = (wheel("idna", "2"),)
    assert main(["lock", "--variant", "cpu", "--output", str(tmp_path / "new" / "deep")]) == 0
    assert world.path("cpu").read_text() == before
    assert file.read(tmp_path / "new" / "deep" / "1.0-cpu-amd64.toml").wheels == world.wheels
    assert world.asked[-1][1] is not None


def test_json_is_one_document(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "--json", "--variant", "cpu"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["locks"]
    assert (done["lock"], done["wheels"], done["debs"]) == ("1.0-cpu-amd64", 1, 1)
    assert [change["name"] for change in done["changes"]] == ["idna", "bash"]


def test_a_lock_that_did_not_change_is_not_written(world: World) -> None:
    main(["lock", "--variant", "cpu"])
    before = world.path("cpu").stat().st_mtime_ns
    assert main(["lock", "--variant", "cpu"]) == 0
    assert world.path("cpu").stat().st_mtime_ns == before


def test_other_bytes_under_the_same_name_are_exit_4_and_nothing_is_written(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["lock", "--variant", "cpu"])
    before = world.path("cpu").read_text()
    world.wheels = (wheel("idna", "1", B),)
    assert main(["lock", "--variant", "cpu"]) == 4
    said = capsys.readouterr().err
    assert A in said and B in said
    assert world.path("cpu").read_text() == before
    assert main(["lock", "--variant", "cpu", "--upgrade", "idna"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--upgrade", "idnaa"], "did you mean 'idna'?"),
        (["--upgrade", "bash"], "bash is a Debian package"),
        (["--check", "--upgrade", "idna"], "--check writes nothing"),
        (["--variant", "cup"], "did you mean 'cpu'?"),
        (["--mirror", "debain=http://x"], "debian"),
    ],
)
def test_wrong_usage_is_exit_2(
    world: World, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    main(["lock"])
    assert main(["lock", "--variant", "cpu", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_one_impossible_image_does_not_keep_the_others_from_being_locked(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(selection: Selection, old: Lock | None, upgrade: Sequence[str], mirrors: Mirrors) -> Lock:
        if selection.variant == "cpu":
            raise InvalidInput("impossible", [Problem("versions.toml", 3, "who pins what")])
        return world.resolve(selection, old, upgrade, mirrors)

    monkeypatch.setattr(verb, "resolve", resolve)
    assert main(["lock"]) == 2
    assert "versions.toml:3: who pins what" in capsys.readouterr().err
    assert world.path("cuda").exists() and not world.path("cpu").exists()


def test_a_folder_that_can_not_be_written_is_exit_2(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert main(["lock", "--variant", "cpu", "--output", str(tmp_path / "file")]) == 2


def test_what_changed_is_fetched_and_looked_into(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lock", "--variant", "cpu"])
    assert world.fetched == [], "a first lock would fetch everything"
    capsys.readouterr()
    world.wheels = (wheel("idna", "2", B),)
    assert main(["lock", "--variant", "cpu", "--json"]) == 0
    assert world.fetched == ["idna 2 (idna-2-py3-none-any.whl)"]
    (done,) = json.loads(capsys.readouterr().out)["locks"]
    assert done["unread"] == 2


@pytest.mark.parametrize("how", ["stored", "off"])
def test_nothing_is_fetched_where_that_is_not_wanted(world: World, how: str) -> None:
    main(["lock", "--variant", "cpu"])
    world.wheels = (wheel("idna", "2", B),)
    assert main(["lock", "--variant", "cpu", "--abi", how]) == 0
    assert world.fetched == []


def test_a_lock_whose_image_would_be_refused_is_not_written(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lock", "--variant", "cpu"])
    before = world.path("cpu").read_text()
    world.wheels = (wheel("idna", "2", B),)
    world.unfit = (Finding("x.so needs liby.so", "who needs what", "why", "move the pin"),)
    assert main(["lock", "--variant", "cpu"]) == 2
    assert "who needs what (move the pin)" in capsys.readouterr().err
    assert world.path("cpu").read_text() == before
    assert main(["lock", "--variant", "cpu", "--abi", "off"]) == 0


def test_without_a_network_the_lock_is_written_with_a_warning(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lock", "--variant", "cpu"])
    world.wheels = (wheel("idna", "2", B),)
    world.no_network = MissingError("no index answers")
    assert main(["lock", "--variant", "cpu"]) == 0
    assert "what changed can't be looked into before it is locked: no index answers" in capsys.readouterr().err
    assert file.read(world.path("cpu")).wheels == world.wheels


def stale(world: World) -> None:
    path = world.root / "versions.toml"
    path.write_text(path.read_text().replace('"wget"]', '"wget", "curl"]'))


def make_belonging(world: World) -> None:
    """A lock that a check finds nothing wrong with."""
    pins = verb.load(world.root / "versions.toml")
    selection = replace(pins.select("1.0", "cuda"), fabric="installer")
    wheels = (wheel("pip", "1"), wheel("ray", "2.60.0"))
    debs = tuple(
        replace(DEB, name=name, sets=sets)
        for name, sets in (("bash", ("image",)), ("gcc", ("build",)), ("wget", ("image",)))
    )
    world.path("cuda").parent.mkdir(exist_ok=True)
    debs = tuple(replace(deb, file=f"{deb.name}.deb", path=f"pool/{deb.name}.deb") for deb in debs)
    installer = EfaInstaller("aws-efa-installer", "1.50.0", "aws-efa-installer-1.50.0.tar.gz", 7, "b" * 64)
    lock = Lock("1.0", "cuda", "amd64", selection.checksum, wheels, debs, installers=(installer,))
    world.path("cuda").write_text(file.dump(lock))


def test_check_passes_on_a_lock_that_belongs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    make_belonging(world)
    assert main(["lock", "--check", "--variant", "cuda"]) == 0
    assert "belongs to versions.toml" in capsys.readouterr().out
    assert world.asked == []


def test_check_fails_on_a_stale_lock(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    make_belonging(world)
    stale(world)
    assert main(["lock", "--check", "--variant", "cuda"]) == 2
    assert "Debian package curl is wanted in set 'image'" in capsys.readouterr().err


def test_check_says_that_a_stale_set_is_impossible_too(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    make_belonging(world)
    stale(world)
    world.impossible = InvalidInput("the pins can't go together", [Problem("versions.toml", 3, "ray pins vllm")])
    assert main(["lock", "--check", "--variant", "cuda"]) == 2
    said = capsys.readouterr().err
    assert "can't go together, and its lock is stale" in said
    assert "versions.toml:3: ray pins vllm" in said and "curl" in said


def test_check_fails_on_a_flipped_nibble(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    make_belonging(world)
    path = world.path("cuda")
    path.write_text(path.read_text().replace(f'"{A}"', f'"{"b" + A[1:]}"', 1))
    assert main(["lock", "--check", "--variant", "cuda"]) == 2
    assert "edited after it was generated" in capsys.readouterr().err


def test_check_fails_where_there_is_no_lock(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "--check"]) == 2
    assert "there is no such lock" in capsys.readouterr().err


def test_misspelt_pins_end_the_command_before_anything_is_asked(world: World) -> None:
    (world.root / "versions.toml").write_text("format = 1\n[defualts]\n")
    assert main(["lock"]) == 2
    assert world.asked == []
