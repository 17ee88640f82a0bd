"""serve_app doctor --measure: what is said of a measurement."""

from __future__ import annotations

import dataclasses

import pytest
from serve_app.doctor import measured
from serve_app.kvbench.raw import Raw
from serve_app.kvbench.report import Report, Row

GB = 10**9
FINE = Row("UCX", "READ", "DRAM", GB, 1, 1.0, 1.0, 3, True, "tcp/eth0", ("eth0",))
LINK = Raw("fi_rma_bw", "READ", GB, 1.2e9, "")
SAME_GPU = dataclasses.replace(FINE, memory="VRAM", median_s=1 / 0.45, transport="rma_am(tcp/lo)", seen=("lo",))
FABRIC = dataclasses.replace(FINE, backend="LIBFABRIC", transport="libfabric tcp, 1 rail", seen=("eth0",), hmem=False)


@pytest.mark.parametrize(
    ("rows", "failed", "same_gpu", "efa", "severity", "says"),
    [
        ([FINE], {}, False, False, "ok", "1.00 GB/s"),
        ([FINE], {}, False, False, "ok", "the link itself does 1.20 GB/s (fi_rma_bw)"),
        ([SAME_GPU], {}, True, False, "warning", "0.45 GB/s"),
        ([SAME_GPU], {}, True, False, "warning", "1097 GB/s"),
        ([SAME_GPU], {}, False, False, "warning", "190 GB/s"),
        ([dataclasses.replace(FINE, verified=False)], {}, False, False, "error", "not what was sent"),
        ([dataclasses.replace(FINE, contradiction="no counter moved")], {}, False, False, "error", "no counter moved"),
        ([dataclasses.replace(FINE, median_s=10.0)], {}, False, False, "warning", "the link does 1.20"),
        ([FABRIC], {}, False, True, "warning", "although EFA is here"),
        ([FABRIC], {}, False, False, "ok", "libfabric tcp"),
        ([dataclasses.replace(FABRIC, memory="VRAM", transport="libfabric efa, 4 rails", seen=("rdma:efa_0",))], {},
         False, True, "warning", "no FI_HMEM"),
        ([FINE], {"LIBFABRIC": "NIXL_ERR_NOT_FOUND"}, False, False, "warning", "LIBFABRIC moved nothing"),
        ([FINE], {"LIBFABRIC": "NIXL_ERR_NOT_FOUND"}, False, True, "error", "LIBFABRIC moved nothing"),
        ([], {"UCX": "x", "LIBFABRIC": "y"}, False, False, "error", "UCX moved nothing"),
        ([dataclasses.replace(FINE, transport="cma/memory", seen=())], {}, False, False, "ok", "no network interface"),
    ],
)  # fmt: skip
def test_judgement(
    rows: list[Row], failed: dict[str, str], same_gpu: bool, efa: bool, severity: str, says: str
) -> None:
    found = list(measured.judge(Report(tuple(rows), (LINK,), failed), same_gpu, efa))
    fitting = [finding for finding in found if finding.severity == severity and says in finding.what]
    assert fitting, found
    assert all(finding.severity == "ok" or (finding.remedy and finding.why) for finding in found)


def test_the_transport_is_named_whatever_is_found() -> None:
    for row in (FINE, SAME_GPU, FABRIC):
        assert any(row.transport in finding.what for finding in measured.judge(Report((row,), (), {}), False, False))


def test_clocks() -> None:
    assert [next(measured.clocks(ahead)).severity for ahead in (0.0, -0.9, 5.0, -5.0)] == [
        "ok",
        "ok",
        "warning",
        "warning",
    ]


def test_two_gpus_are_measured_against_each_other() -> None:
    assert [(plan.memory, plan.devices) for plan in measured.plans(True, 4)] == [("VRAM", (0, 1))] * 2
    assert [(plan.memory, plan.devices) for plan in measured.plans(True, 1)] == [("VRAM", (0, 0))] * 2
    assert [plan.memory for plan in measured.plans(False, 0)] == ["DRAM"] * 2
