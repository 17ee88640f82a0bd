"""One address into one unfinished file, with every fault a server can have."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.sources.http import Http
from slipway.sources.outcome import Absent, Cancelled, Refused, Unreachable, WrongBytes
from slipway.sources.retry import RetryPolicy
from slipway.store import Store
from slipway.store.download import copy, download
from tests.unit.store.conftest import FAST, artifact
from tests.unit.store.server import Server, serving

CONTENT = random.Random(1).randbytes(300_000)  # noqa: S311
WANTED = artifact(CONTENT)


def get(store: Store, http: Http, url: str, begun: bytes = b"") -> list[int]:
    """Download WANTED into the store; the counts that progress was told."""
    moved: list[int] = []
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        part.write(begun)
        download(http, url, part, moved.append)
        store.publish(part)
    return moved


def test_arrives_whole_read_only_and_stamped(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT)
    moved = get(store, http, f"{server.url}/a")
    path = store.path(WANTED.sha256)
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o444
    assert sum(moved) == len(CONTENT)
    assert store.has(WANTED)
    assert list((store.root / "part").iterdir()) == []


def test_500_twice_then_well(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, statuses=[500, 500])
    get(store, http, f"{server.url}/a")
    assert len(server.asked("/a")) == 3


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_statuses_worth_another_try(store: Store, server: Server, http: Http, status: int) -> None:
    server.put("/a", CONTENT, statuses=[status])
    get(store, http, f"{server.url}/a")


def test_500_for_ever_ends(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, statuses=[500] * 50)
    with pytest.raises(Unreachable, match="500"):
        get(store, http, f"{server.url}/a")
    assert len(server.asked("/a")) == FAST.tries


def test_retry_after_is_obeyed(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, statuses=[429], retry_after="1")
    began = time.monotonic()
    get(store, http, f"{server.url}/a")
    assert time.monotonic() - began >= 1


def test_a_wait_beyond_patience_is_not_waited(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, statuses=[503], retry_after="86400")
    with pytest.raises(Unreachable, match="86400 s"):
        get(store, http, f"{server.url}/a")


@pytest.mark.parametrize(("status", "error"), [(404, Absent), (410, Absent), (401, Refused), (403, Refused)])
def test_a_no_is_not_asked_again(store: Store, server: Server, http: Http, status: int, error: type[Exception]) -> None:
    server.put("/a", CONTENT, statuses=[status])
    with pytest.raises(error):
        get(store, http, f"{server.url}/a")
    assert len(server.asked("/a")) == 1


def test_goes_on_at_the_byte_where_it_broke(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, break_at=[100_000, 50_000])
    moved = get(store, http, f"{server.url}/a")
    assert server.asked("/a") == ["", "bytes=100000-", "bytes=150000-"]
    assert sum(moved) == len(CONTENT)


def test_many_breaks_with_progress_are_not_too_many(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, break_at=[20_000] * (FAST.tries + 4))
    get(store, http, f"{server.url}/a")


def test_breaks_without_ranges_begin_anew_and_end(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, break_at=[100_000] * 100, ranges=False)
    with pytest.raises(Unreachable):
        get(store, http, f"{server.url}/a")
    assert len(server.asked("/a")) <= 2 * FAST.tries


def test_one_break_without_ranges(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, break_at=[100_000], ranges=False)
    moved = get(store, http, f"{server.url}/a")
    assert sum(moved) == len(CONTENT)


def test_goes_on_behind_an_earlier_run(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT)
    get(store, http, f"{server.url}/a", begun=CONTENT[:1000])
    assert server.asked("/a") == ["bytes=1000-"]


def test_wrong_leftovers_are_not_blamed_on_the_server(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT)
    moved = get(store, http, f"{server.url}/a", begun=b"x" * 1000)
    assert server.asked("/a") == ["bytes=1000-", ""]
    assert store.path(WANTED.sha256).read_bytes() == CONTENT
    assert sum(moved) == len(CONTENT) - 1000  # the leftover was counted by who began it


def test_whole_but_wrong_leftover(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT)
    get(store, http, f"{server.url}/a", begun=b"x" * len(CONTENT))
    assert server.asked("/a") == [""]


def test_other_bytes(store: Store, server: Server, http: Http) -> None:
    other = b"x" * len(CONTENT)
    server.put("/a", other)
    with pytest.raises(WrongBytes) as caught:
        get(store, http, f"{server.url}/a")
    assert caught.value.sha256 == hashlib.sha256(other).hexdigest()
    assert caught.value.address == f"{server.url}/a"
    assert not store.path(WANTED.sha256).exists()


def test_fewer_bytes_are_told_with_their_hash(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT[:-1])
    with pytest.raises(WrongBytes, match=r"299999 bytes long instead of 300000") as caught:
        get(store, http, f"{server.url}/a")
    assert caught.value.sha256 == hashlib.sha256(CONTENT[:-1]).hexdigest()


def test_truncated_in_flight(store: Store, server: Server, http: Http) -> None:
    """A proxy that announces all and sends less, again and again."""
    server.put("/a", CONTENT[:1000], announce=len(CONTENT), ranges=False)
    server.files["/a"].break_at = [1000] * 100
    with pytest.raises(Unreachable):
        get(store, http, f"{server.url}/a")
    assert not store.path(WANTED.sha256).exists()


def test_more_bytes_announced_are_not_read(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT + b"x")
    with pytest.raises(WrongBytes, match="300001 bytes long"):
        get(store, http, f"{server.url}/a")


def test_reading_stops_at_the_size_of_the_lock(store: Store, server: Server, http: Http) -> None:
    """Nothing announced, nearly endless: what is written stays within the lock's size."""
    server.put("/a", CONTENT * 200, announce=0)
    with pytest.raises(WrongBytes, match="more than the 300000 bytes"):
        get(store, http, f"{server.url}/a")
    assert list((store.root / "part").iterdir()) == []


def test_a_server_that_hangs_up_early_is_asked_again(store: Store, server: Server, http: Http) -> None:
    """HTTP/1.0 style: no length; the end of the connection is the end of the file, or is it?"""
    server.put("/a", CONTENT, announce=0, break_at=[100_000])
    get(store, http, f"{server.url}/a")
    assert server.asked("/a")[1] == "bytes=100000-"


def test_chunked_answers(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, chunked=True, chunk=10_001)
    get(store, http, f"{server.url}/a")
    assert len(server.asked("/a")) == 1


def test_a_chunked_answer_that_is_too_long(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT + b"x", chunked=True)
    with pytest.raises(WrongBytes, match="more than"):
        get(store, http, f"{server.url}/a")


def test_a_chunked_answer_that_ends_early_is_a_shorter_file(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT[:-5], chunked=True)
    with pytest.raises(WrongBytes, match="299995 bytes long"):
        get(store, http, f"{server.url}/a")


def test_redirects_are_followed(store: Store, server: Server, http: Http) -> None:
    server.put("/a", b"", location="/b")
    server.put("/b", CONTENT)
    get(store, http, f"{server.url}/a")


def test_endless_redirects_end(store: Store, server: Server, http: Http) -> None:
    server.put("/a", b"", location="/a")
    with pytest.raises(Unreachable):
        get(store, http, f"{server.url}/a")


def test_a_login_in_the_address_is_used_and_never_shown(store: Store, server: Server, http: Http) -> None:
    server.put("/a", CONTENT, login="Basic bWU6c2VjcmV0")
    get(store, http, server.url.replace("//", "//me:secret@") + "/a")
    server.put("/b", CONTENT, statuses=[404])
    with pytest.raises(Absent) as caught:
        other = artifact(b"other")
        with store.part(other.sha256, other.size) as part:
            assert part is not None
            download(http, server.url.replace("//", "//me:secret@") + "/b", part, lambda _count: None)
    assert "secret" not in str(caught.value)


def test_nobody_listens(store: Store, http: Http) -> None:
    with serving() as gone:
        url = gone.url
    with pytest.raises(Unreachable, match="3 tries"):
        get(store, http, f"{url}/a")


def test_a_server_that_is_down_is_not_asked_for_each_of_hundreds(store: Store, http: Http) -> None:
    with serving() as gone:
        url = gone.url
    for _ in range(2):
        with pytest.raises(Unreachable, match="3 tries"):
            get(store, http, f"{url}/a")
    with pytest.raises(Unreachable, match="failed before"):
        get(store, http, f"{url}/b")


def test_cancel_stops_a_slow_download_and_keeps_its_bytes(store: Store, server: Server) -> None:
    cancel = threading.Event()
    http = Http(policy=FAST, environ={}, cancel=cancel)
    server.put("/a", CONTENT, chunk=10_000, pause=0.05)

    def moved(_count: int) -> None:
        cancel.set()

    with pytest.raises(Cancelled), store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        download(http, f"{server.url}/a", part, moved)
    cancel.clear()
    assert sum(path.stat().st_size for path in (store.root / "part").iterdir()) <= len(CONTENT)


def test_an_empty_file(store: Store, server: Server, http: Http) -> None:
    server.put("/a", b"")
    empty = artifact(b"")
    with store.part(empty.sha256, 0) as part:
        assert part is not None
        download(http, f"{server.url}/a", part, lambda _count: None)
        store.publish(part)
    assert store.has(empty)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 4000), max_size=3), begun=st.integers(0, 5000), ranges=st.booleans())
def test_any_breaks_give_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], begun: int, ranges: bool
) -> None:
    content = CONTENT[:5000]
    wanted = artifact(content)
    store = Store(tmp_path_factory.mktemp("store"))
    moved: list[int] = []
    with serving() as server, store.part(wanted.sha256, wanted.size) as part:
        assert part is not None
        server.put("/a", content, break_at=list(cuts), ranges=ranges)
        part.write(content[:begun])
        download(Http(policy=RetryPolicy(8, 0.0001, 0.0002), environ={}), f"{server.url}/a", part, moved.append)
        store.publish(part)
    assert store.path(wanted.sha256).read_bytes() == content
    assert begun + sum(moved) == len(content)


Prepare = Callable[[Path], object]


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (lambda path: path.write_bytes(CONTENT), None),
        (lambda path: path.write_bytes(CONTENT[:-1]), WrongBytes),
        (lambda path: path.write_bytes(CONTENT + b"x"), WrongBytes),
        (lambda path: path.write_bytes(b"x" * len(CONTENT)), WrongBytes),
        (lambda path: None, Absent),
    ],
)
def test_copies_of_local_files(store: Store, tmp_path: Path, prepare: Prepare, error: type[Exception] | None) -> None:
    path = tmp_path / "file"
    prepare(path)
    with store.part(WANTED.sha256, WANTED.size) as part:
        assert part is not None
        if error is None:
            copy(path, part, lambda _count: None, threading.Event())
            assert part.is_right
        else:
            with pytest.raises(error) as caught:
                copy(path, part, lambda _count: None, threading.Event())
            if isinstance(caught.value, WrongBytes):
                assert caught.value.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
