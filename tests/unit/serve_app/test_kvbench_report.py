"""kvbench: the report, the picture, the control connection and the command line."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from serve_app.cli import main
from serve_app.errors import UsageError
from serve_app.kvbench import channel, picture
from serve_app.kvbench.raw import Raw
from serve_app.kvbench.report import Report, Row
from serve_app.kvbench.server import Server


def row(**more: object) -> Row:
    fields = {
        "backend": "UCX", "op": "READ", "memory": "DRAM", "size": 1 << 20, "descriptors": 1, "median_s": 1e-3,
        "best_s": 5e-4, "transfers": 9, "verified": True, "transport": "tcp/eth0", "seen": ("eth0",), **more,
    }  # fmt: skip
    return Row(**fields)  # type: ignore[arg-type]


def test_the_table_says_rate_contents_and_way() -> None:
    link = Raw("fi_rma_bw", "READ", 1 << 20, 2e9, "fi_rma_bw …")
    text = Report((row(), row(descriptors=4096, verified=False)), (link,), {"iperf3 READ": "there is none"}).table()
    assert "1.05" in text
    assert text.count("WRONG") == 1
    assert "tcp/eth0 (seen: eth0)" in text
    assert "raw link, fi_rma_bw READ, 1M: 2.00 GB/s" in text
    assert "not measured: iperf3 READ: there is none" in text


@pytest.mark.parametrize(
    ("report", "right"),
    [
        (Report((row(),), (), {}), True),
        (Report((row(),), (), {"iperf3 READ": "there is none"}), True),
        (Report((row(),), (), {"LIBFABRIC": "NIXL_ERR_NOT_FOUND"}), False),
        (Report((row(verified=False),), (), {}), False),
        (Report((row(contradiction="no counter moved"),), (), {}), False),
        (Report((), (), {}), False),
    ],
)
def test_only_a_whole_and_right_report_is_right(report: Report, right: bool) -> None:
    assert report.right is right
    assert report.as_json()["right"] is right


def test_the_raw_figure_of_the_same_operation_and_size() -> None:
    links = (
        Raw("fi_rma_bw", "READ", 64, 1.0, ""),
        Raw("fi_rma_bw", "WRITE", 64, 5.0, ""),
        Raw("iperf3", "READ", 0, 2.0, ""),
    )
    report = Report((row(),), links, {})
    asked = (("READ", 64), ("READ", 1), ("WRITE", 1))
    assert [getattr(report.best_raw(op, size), "rate", None) for op, size in asked] == [
        2.0, 2.0, None,
    ]  # fmt: skip


def test_the_axes_hold_every_point() -> None:
    report = Report((row(median_s=1e-3), row(size=64, median_s=1e-3)), (Raw("x", "READ", 0, 3e11, ""),), {})
    assert picture.scale(report) == ([64, 1 << 20], 1e-5, 1000.0)
    assert picture.lines(report) == {"UCX READ DRAM, 1 piece, tcp/eth0": [(64, 6.4e-5), (1 << 20, 1.048576)]}


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    picture.write(Report((row(),), (Raw("x", "READ", 0, 1e9, ""),), {}), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_messages_go_both_ways_and_errors_are_raised() -> None:
    one, other = (channel.Channel(end, 5) for end in socket.socketpair())

    def answer() -> None:
        assert other.receive() == {"do": "x"}
        other.send(done=True)
        other.receive()
        other.send(error="no GPU")
        other.receive()
        other.close()

    thread = threading.Thread(target=answer)
    thread.start()
    assert one.ask(do="x") == {"done": True}
    with pytest.raises(channel.Lost, match="no GPU"):
        one.ask(do="y")
    with pytest.raises(channel.Lost, match="ended"):
        one.ask(do="z")
    thread.join(5)


def test_a_server_says_no_to_what_it_does_not_know_and_ends_when_told() -> None:
    server = Server("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=[lambda _text: None])
    thread.start()
    with pytest.raises(channel.Lost, match="nothing that kvbench does"):
        channel.connect("127.0.0.1", server.port).ask(do="shell", command="rm")
    assert channel.connect("127.0.0.1", server.port).ask(do="clock")["time"] > 0
    channel.connect("127.0.0.1", server.port).send(do="end")
    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "found"), [("a:1", ("a", 1)), (":7", ("x", 7)), ("7", ("x", 7)), ("[::1]:7", ("::1", 7))]
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert channel.split(text, "x") == found


@pytest.mark.parametrize("text", ["", "a", "a:b", "a:99999"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError):
        channel.split(text)


@pytest.mark.parametrize(
    "words",
    [
        ["--sizes", "x"],
        ["--ops", "COPY"],
        ["--descriptors", "0"],
        ["--devices", "1"],
        ["--sizes", "64", "--descriptors", "7"],
    ],
)
def test_wrong_usage_is_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["kvbench", *words]) == 2
    assert "serve_app:" in capsys.readouterr().err
