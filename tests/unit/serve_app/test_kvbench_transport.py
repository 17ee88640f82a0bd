"""kvbench: which transport it was, from logs as UCX 1.20 and NIXL 1.3.2 printed them, and from counters."""

from __future__ import annotations

from pathlib import Path

import pytest
from serve_app.kvbench import raw, transport, wire

UCX = """
[1] [h:47 :0]   +--------------------------+----------------------------------------------------+------------+
[1] [h:47 :0]   | ucp_context_0 self cfg#0 | remote memory read by ucp_get* into host memory from host    |
[1] [h:47 :0]   |                   0..inf | zero-copy                                      | cma/memory |
[1] [h:47 :0]   +--------------------------------+---------------------------------------------+----------+
[1] [h:47 :0]   | ucp_context_0 inter-node cfg#1 | remote memory read by ucp_get* into host memory from host |
[1] [h:47 :0]   +--------------------------------+---------------------------------------------+----------+
[1] [h:47 :0]   |                        0..8184 | short                                       | tcp/lo   |
[1] [h:47 :0]   |                      8185..inf | zero-copy                                   | {way} |
[1] [h:47 :0]   +--------------------------------+---------------------------------------------+----------+
[1] [h:47 :0]   | ucp_context_0 inter-node cfg#1 | active message by ucp_am_send* from host memory    |
[1] [h:47 :0]   |                      1..65528  | zero-copy                                   | tcp/eth9 |
"""
LIBFABRIC = """
I1130 23:45:16 68 libfabric_rail.cpp:457] Using provider without FI_HMEM support for rail 0
I1130 23:45:16 68 libfabric_rail.cpp:470] fabric_attr->name 172.17.0.0/16
I1130 23:45:16 68 libfabric_rail_manager.cpp:232] Created 1 rails using provider=tcp
"""


@pytest.mark.parametrize("way", ["tcp/eth0", "rma_am(tcp/lo)", "cuda_ipc/cuda", "cma/memory"])
def test_ucx_s_table(way: str) -> None:
    assert transport.said("UCX", UCX.replace("{way}", way), "READ") == way


def test_a_log_without_the_operation_says_nothing() -> None:
    assert transport.said("UCX", UCX, "WRITE") == transport.UNKNOWN
    assert transport.said("LIBFABRIC", "", "READ") == transport.UNKNOWN
    assert transport.said("MOONCAKE", UCX, "READ") == transport.UNKNOWN


def test_libfabric_s_provider() -> None:
    assert transport.said("LIBFABRIC", LIBFABRIC, "READ") == "libfabric tcp, 1 rail, 172.17.0.0/16"
    efa = LIBFABRIC.replace("Created 1 rails using provider=tcp", "Created 4 rails using provider=efa")
    assert transport.said("LIBFABRIC", efa, "READ") == "libfabric efa, 4 rails"


@pytest.mark.parametrize(
    ("said", "seen", "wrong"),
    [
        ("tcp/eth0", ["eth0"], False),
        ("tcp/eth0", [], True),
        ("tcp/eth0", ["lo"], True),
        ("rma_am(tcp/lo)", ["lo"], False),
        ("libfabric tcp, 1 rail, 10.0.0.0/16", ["eth1"], False),
        ("libfabric tcp, 1 rail, 10.0.0.0/16", [], True),
        ("libfabric efa, 4 rails", ["rdma:efa_0"], False),
        ("libfabric efa, 4 rails", ["eth0"], True),
        ("libfabric efa, 4 rails", [], True),
        ("cma/memory", [], False),
        ("cma/memory", ["eth0"], True),
        ("cuda_ipc/cuda", [], False),
        ("unknown", ["eth0"], False),
    ],
)
def test_what_is_said_must_agree_with_what_is_seen(said: str, seen: list[str], wrong: bool) -> None:
    assert bool(transport.contradiction(said, seen)) is wrong


def test_an_interface_that_saw_less_did_not_carry_it() -> None:
    assert transport.seen({"eth0": 1000, "lo": 899, "eth1": 0}, 1000) == ("eth0",)
    assert transport.seen({"eth0": 0}, 0) == ()


def test_counters_of_interfaces_and_devices(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/dev").write_text(
        "Inter-|   Receive    |  Transmit\n face |bytes packets|bytes\n"
        "    lo:  11 0 0 0 0 0 0 0  22 0 0 0 0 0 0 0\n  eth0:4045369390 6 0 0 0 0 0 0 4038338434 6 0 0 0 0 0 0\n"
    )
    for name, folder, files in (
        ("efa_0", "hw_counters", {"rx_bytes": "500\n", "tx_bytes": "600\n"}),
        ("mlx5_0", "counters", {"port_rcv_data": "10\n", "port_xmit_data": "20\n"}),
    ):
        port = tmp_path / "sys/class/infiniband" / name / "ports/1" / folder
        port.mkdir(parents=True)
        for file, text in files.items():
            (port / file).write_text(text)
    now = wire.read(tmp_path / "proc", tmp_path / "sys")
    assert now.received == {"lo": 11, "eth0": 4045369390, "rdma:efa_0": 500, "rdma:mlx5_0": 40}
    assert now.sent == {"lo": 22, "eth0": 4038338434, "rdma:efa_0": 600, "rdma:mlx5_0": 80}
    later = wire.Counters({**now.received, "eth0": 4045369490, "new": 5}, now.sent).since(now)
    assert (later.of("READ")["eth0"], later.of("READ")["new"], later.of("WRITE")["eth0"]) == (100, 5, 0)


def test_rates_of_raw_tools() -> None:
    said = "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n64m     20      1.2g        1.37s    979.63   68504.00       0.00\n"  # noqa: E501
    assert raw.parse("fi_rma_bw", said) == pytest.approx(979.63e6)
    assert raw.parse("fi_rma_bw", "nothing") == 0
    assert raw.parse("iperf3", '{"end": {"sum_received": {"bits_per_second": 8e9}}}') == 1e9
    assert raw.parse("iperf3", "iperf3: error") == 0


def test_a_command_line_takes_nothing_from_the_other_side_but_numbers() -> None:
    words = raw.command("fi_rma_bw", {"provider": "; rm", "op": "x", "size": "64", "count": 5.0}, "10.0.0.1", False)
    assert words == ["fi_rma_bw", "-p", "tcp", "-o", "write", "-S", "64", "-I", "5", "-W", "1", "10.0.0.1"]
