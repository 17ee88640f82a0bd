"""Room for jobs, and sweeping up after those that were killed."""

import fcntl
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slipway.sandbox import place
from slipway.sandbox.isolation import Isolation
from slipway.sandbox.running import ROOT

NONE = Isolation("none")
MEMINFO = "MemTotal: 100 kB\nMemAvailable:   2000 kB\n"


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [(None, None, 2_048_000), ("max\n", "5", 2_048_000), ("1000000\n", "400000\n", 600_000), ("10", "20", 0)],
)
def test_memory(limit: str | None, used: str | None, expected: int) -> None:
    assert place.memory_available(MEMINFO, limit, used) == expected


def test_no_meminfo_is_no_memory() -> None:
    assert place.memory_available("") == 0


def test_a_folder_goes_with_everything_in_it(tmp_path: Path) -> None:
    with place.work_folder(tmp_path / "work", NONE) as folder:
        (folder / "a/b").mkdir(parents=True)
        (folder / "a/b/c").write_text("x")
        (folder / "a/b").chmod(0o500)
    assert not folder.exists()


def test_a_folder_goes_also_when_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), place.work_folder(tmp_path, NONE) as folder:
        raise ZeroDivisionError
    assert not folder.exists()


def test_only_the_dead_are_swept(tmp_path: Path) -> None:
    dead, unborn = tmp_path / f"{place.PREFIX}dead", tmp_path / f"{place.PREFIX}unborn"
    for folder in (dead, unborn):
        (folder / "tree").mkdir(parents=True)
    (dead / place.LOCK).touch()
    other = tmp_path / "somebody-elses"
    other.mkdir()
    with place.work_folder(tmp_path, NONE) as living:
        assert not dead.exists() and not unborn.exists()
        assert place.sweep(tmp_path, NONE) == []
        assert living.exists() and other.exists()


def test_what_a_killed_build_leaves_is_swept_by_the_next(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from slipway.sandbox import place, isolation\n"
        "with place.work_folder(Path(sys.argv[1]), isolation.Isolation('none')) as folder:\n"
        "    (folder / 'big').write_text('x'); print(folder, flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout is not None
    left = Path(child.stdout.readline().decode().strip())
    assert place.sweep(tmp_path, NONE) == []
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert left.exists()
    assert place.sweep(tmp_path, NONE) == [left]
    assert not left.exists()


def test_makers_and_sweepers_take_turns(tmp_path: Path) -> None:
    with (tmp_path / f".{place.PREFIX}guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        sweeper = threading.Thread(target=place.sweep, args=(tmp_path, NONE), daemon=True)
        sweeper.start()
        sweeper.join(0.2)
        assert sweeper.is_alive()
    sweeper.join(10)
    assert not sweeper.is_alive()


def test_mounts_below_are_found_deepest_first() -> None:
    info = (
        "1 0 0:1 / / rw - ext4 x rw\n"
        "2 1 0:2 / /w/root rw - tmpfs x rw\n"
        "3 2 0:3 / /w/root/proc/fs rw - proc x rw\n"
        "4 1 0:4 / /w/roots rw - tmpfs x rw\n"
        "5 1 0:5 / /w/root/a\\040ü rw - tmpfs x rw\n"
    ).encode()
    assert place.mounts_below(Path("/w/root"), info) == [
        Path("/w/root/proc/fs"),
        Path("/w/root/a ü"),
        Path("/w/root"),
    ]


def test_what_is_mounted_is_not_reached_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"{place.PREFIX}x"
    folder.mkdir()
    monkeypatch.setattr(place, "unmount_below", lambda path: False)
    place.remove(folder, NONE)
    assert folder.exists()
