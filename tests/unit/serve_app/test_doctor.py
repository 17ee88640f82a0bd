"""serve_app doctor: each check fires on the node that it is for, and is silent on healthy ones."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from doctor_nodes import LIB, Fake, gpu, laptop  # noqa: E402
from serve_app.cli import main  # noqa: E402
from serve_app.doctor import checks, loaded, model  # noqa: E402
from serve_app.doctor.loaded import Loaded  # noqa: E402
from serve_app.doctor.node import Node, Ran  # noqa: E402

NO_HMEM = "libfabric_rail.cpp:457] Using provider without FI_HMEM support for rail 0"
TCP = "sl local rem st\n0: 00000000:{port:04X} 00000000:0000 0A\n"
REPLICA = "ray::ServeReplica:pd:{role}:demo\0"


def put(path: str, text: str) -> Callable[[Fake], None]:
    return lambda fake: fake.files.__setitem__(path, text)


def drop(path: str) -> Callable[[Fake], None]:
    return lambda fake: fake.files.__delitem__(path)


def env(name: str, value: str) -> Callable[[Fake], None]:
    return lambda fake: fake.environ.__setitem__(name, value)


def be(**fields: object) -> Callable[[Fake], None]:
    return lambda fake: [setattr(fake, name, value) for name, value in fields.items()] and None


def both(*changes: Callable[[Fake], None]) -> Callable[[Fake], None]:
    return lambda fake: [change(fake) for change in changes] and None


def load(name: str, **fields: object) -> Callable[[Fake], None]:
    return lambda fake: fake.change(name, **fields)


def also(name: str, *libraries: str) -> Callable[[Fake], None]:
    return lambda fake: fake.change(name, libraries=(*fake.loaded[name].libraries, *libraries))


def replicas(*roles: str, gpu: str = "") -> Callable[[Fake], None]:
    def change(fake: Fake) -> None:
        for number, role in enumerate(roles, 100):
            fake.files[f"proc/{number}/cmdline"] = REPLICA.format(role=role)
            fake.files[f"proc/{number}/environ"] = f"A=1\0CUDA_VISIBLE_DEVICES={gpu}\0" if gpu else "A=1\0"

    return change


def many_efa(fake: Fake) -> None:
    fake.efa = 40
    fake.files |= {f"dev/infiniband/uverbs{number}": "" for number in range(40)}


CASES: list[tuple[str, Callable[[Path], Fake], Callable[[Fake], None], str, str]] = [
    ("driver", laptop, be(torch=gpu(Path()).torch), "error", "no GPU here"),
    ("driver", gpu, put("proc/driver/nvidia/version", "NVRM version: Kernel Module  570.10.1  x"), "error",
     "older than CUDA 13"),
    ("driver", gpu, drop("proc/driver/nvidia/version"), "error", "no driver is loaded"),
    ("driver", gpu, be(torch=laptop(Path()).torch), "warning", "without CUDA"),
    ("compat", gpu, also("LIBFABRIC", "/usr/local/cuda-13/compat/libcuda.so.570.1.1"), "error",
     "shadows the newer driver"),
    ("compat", gpu, both(put("usr/local/cuda-13.0/compat/libcuda.so.565.1.1", ""), env("LD_LIBRARY_PATH",
     "/usr/local/cuda/compat")),
     "error", "shadows"),
    ("libraries", laptop, also("UCX", f"{LIB}/libibverbs-1de1263b.so.1"), "warning", "2 libibverbs"),
    ("libraries", laptop, also("LIBFABRIC", "/opt/amazon/efa/lib/libfabric.so.1.20"), "error", "2 libfabric"),
    ("libraries", laptop, also("LIBFABRIC", "/x/libcudart.so.12"), "error", "2 libcudart"),
    ("libraries", gpu, also("UCX", "/a/libnccl.so.2", "/b/libnccl.so.2"), "error", "2 libnccl"),
    ("libraries", laptop, also("UCX", "/opt/hpcx/libucp.so.0"), "error", "2 libucp"),
    ("nixl_plugins", laptop, load("LIBFABRIC", error="version `FABRIC_1.10' not found"), "warning", "FABRIC_1.10"),
    ("nixl_plugins", gpu, load("LIBFABRIC", error="version `FABRIC_1.10' not found"), "error", "FABRIC_1.10"),
    ("nixl_plugins", laptop, be(loaded={"UCX": Loaded(error="no nixl")}), "error", "no nixl"),
    ("nixl_plugins", laptop, load("UCX", died="signal 11"), "warning", "signal 11"),
    ("gpu_direct", gpu, load("LIBFABRIC", log=NO_HMEM), "warning", "FI_HMEM"),
    ("efa_devices", gpu, both(be(efa=0)), "warning", "no EFA device"),
    ("efa_devices", gpu, drop("dev/infiniband/uverbs0"), "error", "none of its device files"),
    ("efa_devices", gpu, be(denied="Operation not permitted"), "error", "hostPath"),
    ("efa_devices", gpu, be(fi_info=Ran(61, "fi_getinfo: -61 (No data available)")), "error", "-61"),
    ("efa_devices", gpu, be(fi_info=Ran(127, "there is no fi_info")), "error", "there is no fi_info"),
    ("memlock", gpu, put("proc/self/limits", "Max locked memory  65536  65536  bytes\n"), "error", "65536"),
    ("memlock", gpu, both(put("proc/self/limits", "Max locked memory  65536  65536  bytes\n"),
                          put("proc/self/status", "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-31\n")),
     "note", "CAP_IPC_LOCK"),
    ("shared_memory", laptop, be(shm=(67_108_864, 67_108_864)), "warning", "object store"),
    ("shared_memory", gpu, be(shm=(67_108_864, 67_108_864)), "error", "NCCL"),
    ("shared_memory", laptop, be(shm=(2 << 30, 1 << 20)), "warning", "filled"),
    ("hugepages", gpu, put("proc/meminfo", "MemTotal: 128000000 kB\nHugePages_Total: 10\nHugePages_Free: 0\n"),
     "warning", "taken"),
    ("hugepages", gpu, put("proc/meminfo", "MemTotal: 128000000 kB\nHugePages_Total: 0\n"), "note", "no huge pages"),
    ("memory", gpu, many_efa, "warning", "160 GiB"),
    ("memory", gpu, put("sys/fs/cgroup/memory.max", "1000000000\n"), "warning", "want about 4"),
    ("fork", gpu, put("proc/sys/kernel/osrelease", "5.10.0-1\n"), "error", "5.10"),
    ("fork", gpu, env("VLLM_WORKER_MULTIPROC_METHOD", "fork"), "warning", "fork"),
    ("worker_cores", laptop, put("proc/self/status", "Cpus_allowed_list:\t0-2\n"), "", ""),
    ("worker_cores", laptop, put("proc/self/status", "Cpus_allowed_list:\t0\n"), "error", "asks for core 1"),
    ("worker_cores", laptop, both(put("proc/self/status", "Cpus_allowed_list:\t0\n"),
                                  put("sys/devices/system/node/node0/cpulist", "0\n")), "warning", "one core"),
    ("side_channel", laptop, put("proc/net/tcp", TCP.format(port=20001)), "error", "20001"),
    ("side_channel", laptop, put("proc/net/tcp6", TCP.format(port=22000)), "error", "22000"),
    ("side_channel", laptop, both(put("proc/net/tcp", TCP.format(port=20000)), replicas("Prefill")), "", ""),
    ("side_channel", laptop, env("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600"), "warning", "SIDE_CHANNEL_PORT is set"),
    ("side_channel", laptop, put("proc/sys/net/ipv4/ip_local_port_range", "15000 65000"), "warning", "15000"),
    ("interfaces", laptop, drop("sys/class/net/eth0/operstate"), "error", "besides lo"),
    ("interfaces", laptop, put("sys/class/net/docker0/operstate", "up"), "warning", "2 interfaces"),
    ("interfaces", laptop, put("sys/class/net/eth0/mtu", "1280\n"), "warning", "MTU"),
    ("transports", laptop, env("FI_PROVIDER", "efa"), "error", "no EFA device"),
    ("transports", gpu, env("FI_PROVIDER", "tcp"), "warning", "will not be used"),
    ("transports", laptop, env("FI_PROVIDER", "sockets"), "warning", "sockets"),
    ("transports", laptop, env("FI_TCP_IFACE", "lo"), "error", "loopback"),
    ("transports", gpu, env("UCX_TLS", "tcp"), "warning", "UCX_TLS=tcp"),
    ("clock", laptop, be(now=0.0), "error", "before 2026"),
    ("clock", laptop, be(synchronised=False), "note", "nothing keeps"),
    ("clock", laptop, put("sys/devices/system/clocksource/clocksource0/current_clocksource", "xen\n"), "warning",
     "xen"),
    ("hf_cache", laptop, be(writable=lambda path: False), "error", "/home/ray/.cache/huggingface"),
    ("hf_cache", laptop, both(be(writable=lambda path: False), env("HF_HUB_OFFLINE", "1")), "", ""),
    ("hf_cache", laptop, be(disk=(10**9, 10**8)), "warning", "0.1 GB free"),
    ("placement", gpu, replicas("Prefill", "Decode", gpu="0"), "warning", "0.45 GB/s"),
    ("placement", gpu, replicas("Prefill", "Decode"), "warning", "1097 GB/s"),
    ("placement", laptop, replicas("Prefill", "Decode"), "warning", "one node"),
    ("placement", laptop, replicas("Decode"), "", ""),
    ("placement", gpu, be(config={"applications": [{"args": {"kv_transfer": {"allow_same_node": True}}}]}), "warning",
     "allow_same_node"),
]  # fmt: skip

SILENT = {"ok", "note"}
NAMES = {check.__module__.rpartition(".")[2] for check in checks.ALL}


@pytest.mark.parametrize(("name", "base", "change", "severity", "says"), CASES)
def test_a_check_fires(
    tmp_path: Path, name: str, base: Callable[[Path], Fake], change: Callable[[Fake], None], severity: str, says: str
) -> None:
    fake = base(tmp_path)
    change(fake)
    found = [finding for finding in checks.examine(fake.make()) if finding.check == name]
    wrong = [finding for finding in found if finding.severity != "ok"]
    if not severity:
        assert wrong == []
        return
    fitting = [finding for finding in wrong if finding.severity == severity and says in finding.what]
    assert fitting, found
    for finding in fitting:
        assert severity == "note" or (finding.remedy and finding.why), finding


def test_every_check_has_a_case_in_which_it_fires() -> None:
    assert {name for name, _, _, severity, _ in CASES if severity} == NAMES


@pytest.mark.parametrize("base", [laptop, gpu])
def test_a_healthy_node_has_nothing_wrong(tmp_path: Path, base: Callable[[Path], Fake]) -> None:
    found = list(checks.examine(base(tmp_path).make()))
    assert [finding for finding in found if finding.severity != "ok"] == []
    assert model.exit_code(found) == 0
    assert len({finding.check for finding in found}) >= 9


def test_every_file_of_checks_is_among_all() -> None:
    folder = Path(checks.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == NAMES


def test_a_check_that_breaks_is_a_finding(tmp_path: Path) -> None:
    def broken(_path: Path) -> bool:
        raise RuntimeError("odd")

    node = dataclasses.replace(laptop(tmp_path).make(), writable=broken)
    [finding] = [one for one in checks.examine(node) if "itself failed" in one.what]
    assert (finding.check, finding.severity) == ("hf_cache", "warning")


def test_exit_codes() -> None:
    def finding(severity: model.Severity) -> model.Finding:
        return model.Finding("x", severity, "y")

    assert model.exit_code([]) == model.exit_code([finding("ok"), finding("note")]) == 0
    assert model.exit_code([finding("warning"), finding("ok")]) == 1
    assert model.exit_code([finding("error"), finding("warning")]) == 2


def test_the_worst_stands_last_with_its_remedy() -> None:
    text = model.table([model.Finding("a", "error", "bad", "mend it", "https://x"), model.Finding("b", "ok", "fine")])
    assert text.splitlines()[0].split() == ["ok", "b", "fine"]
    assert text.splitlines()[-2:] == [" " * 11 + "do:  mend it", " " * 11 + "why: https://x"]


@pytest.mark.parametrize(
    ("code", "out", "died", "error"),
    [(0, 'x\n{"error": "", "libraries": ["/a"]}\n', "", ""), (-11, "", "signal 11", ""), (0, "", "it said nothing", ""),
     (1, "Traceback", "exit code 1", ""), (-11, '{"error": "", "libraries": []}', "signal 11", "")],
)  # fmt: skip
def test_what_a_process_left(code: int, out: str, died: str, error: str) -> None:
    found = loaded.parse(code, out, "")
    assert (found.died, found.error) == (died, error)


def test_a_library_is_known_by_its_name_only() -> None:
    paths = ("/a/libnl-3-47cd035c.so.200", "/a/libnl-route-3.so.200", "/a/libfabric.so.1", "/a/libfabric_x.so")
    found = Loaded(libraries=paths)
    assert found.files("libnl-3") == ["/a/libnl-3-47cd035c.so.200"]
    assert found.files("libfabric") == ["/a/libfabric.so.1"]


def test_json_and_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = laptop(tmp_path)
    fake.shm = (1, 1)
    node = fake.make()
    monkeypatch.setattr("serve_app.doctor.node.Node", lambda config: node)
    monkeypatch.setattr("serve_app.environment.prepare", lambda: tmp_path)
    assert main.main(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["exit"] == 1
    assert {"check", "severity", "what", "remedy", "why"} == set(document["findings"][0])


def test_this_very_machine_can_be_examined() -> None:
    node = Node(load=lambda: {"UCX": Loaded()})
    assert not [finding for finding in checks.examine(node) if "itself failed" in finding.what]


def test_processes_that_end_while_they_are_looked_at(tmp_path: Path) -> None:
    """Their files can't be read any more; a folder can't be read as a file either, and stays for the test."""
    (tmp_path / "proc" / "7" / "cmdline").mkdir(parents=True)
    node = Node(root=tmp_path, load=lambda: {"UCX": Loaded()})
    assert [path.name for path in node.glob("proc/[0-9]*/cmdline")] == ["cmdline"]
    assert not [finding for finding in checks.examine(node) if "itself failed" in finding.what]
