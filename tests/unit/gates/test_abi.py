"""Gate abi: each kind of mismatch that has stopped a real image is found, and said with file, version and pin."""

from __future__ import annotations

from pathlib import Path

import image_builder as make
import pytest

from slipway.gates import abi
from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import read_image

Members = dict[str, make.Item | bytes | str | None]
PLUGIN = ".nixl_cu13.mesonpy.libs/plugins/libplugin_LIBFABRIC.so"
LIBC: Members = {
    "usr/lib/x86_64-linux-gnu/libc.so.6": make.elf(soname="libc.so.6", defines=["GLIBC_2.2.5", "GLIBC_2.36"])
}


def check(tmp_path: Path, *layers: Members, names: tuple[str, ...] = (), arch: str = "amd64") -> list[Finding]:
    image = read_image(make.layout(tmp_path, [LIBC, *layers], names=("debian", *names), architecture=arch))
    return list(abi.check(image, GateSettings()))


def problems(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "error"]


def fabric(*versions: str) -> Members:
    return {
        "opt/amazon/efa/lib/libfabric.so.1": "libfabric.so.1.29.0",
        "opt/amazon/efa/lib/libfabric.so.1.29.0": make.elf(soname="libfabric.so.1", defines=versions),
        "etc/ld.so.cache": make.ld_cache(
            {
                "libfabric.so.1": "/opt/amazon/efa/lib/libfabric.so.1",
                "libc.so.6": "/usr/lib/x86_64-linux-gnu/libc.so.6",
            }
        ),
    }


def nixl(version: str, *wanted: str) -> Members:
    needs = {"libfabric.so.1": wanted, "libc.so.6": ["GLIBC_2.2.5"]}
    plugin = make.elf(needed=["libfabric.so.1", "libcuda.so.1", "libc.so.6"], needs=needs)
    return make.wheel("nixl-cu13", version, {PLUGIN: plugin})


def test_nixl_that_needs_a_newer_libfabric(tmp_path: Path) -> None:
    (finding,) = problems(
        check(
            tmp_path,
            fabric("FABRIC_1.0", "FABRIC_1.1", "FABRIC_1.7", "FABRIC_1.8"),
            nixl("1.5.1", "FABRIC_1.0", "FABRIC_1.10"),
            names=("libfabric", "nixl"),
        )
    )
    assert finding.subject == f"{make.SITE}/{PLUGIN} needs libfabric.so.1"
    assert finding.what == (
        "wheel nixl-cu13 1.5.1 needs FABRIC_1.10 of libfabric.so.1; opt/amazon/efa/lib/libfabric.so.1.29.0 "
        "(layer libfabric) provides FABRIC_1.0, FABRIC_1.1, FABRIC_1.7, FABRIC_1.8"
    )
    assert finding.remedy == (
        "move the pin of libfabric up to a version that has FABRIC_1.10, or that of nixl-cu13 1.5.1 down"
    )


def test_nixl_that_fits_its_libfabric(tmp_path: Path) -> None:
    assert check(tmp_path, fabric("FABRIC_1.0", "FABRIC_1.7"), nixl("1.3.2", "FABRIC_1.0", "FABRIC_1.7")) == []


def test_a_library_outside_the_loaders_sight(tmp_path: Path) -> None:
    layer = fabric("FABRIC_1.0", "FABRIC_1.7")
    layer["etc/ld.so.cache"] = make.ld_cache({"libc.so.6": "/usr/lib/x86_64-linux-gnu/libc.so.6"})
    (finding,) = problems(check(tmp_path, layer, nixl("1.3.2", "FABRIC_1.0")))
    assert "the loader does not find; the image has it at opt/amazon/efa/lib/libfabric.so.1.29.0" in finding.what
    assert "ld.so.conf.d" in finding.remedy


def test_cuda_12_in_a_cuda_13_image(tmp_path: Path) -> None:
    runtime = make.wheel(
        "nvidia-cuda-runtime", "13.0.1", {"nvidia/cu13/lib/libcudart.so.13": make.elf(soname="libcudart.so.13")}
    )
    old = make.wheel("oldkernels", "1.0", {"oldkernels/_C.so": make.elf(needed=["libcudart.so.12"])})
    (finding,) = problems(check(tmp_path, runtime, old))
    assert "wheel oldkernels 1.0 needs libcudart.so.12, which is not in the image" in finding.what
    assert "built for CUDA 12, this image has libcudart.so.13" in finding.what
    assert finding.remedy.startswith("move the pin of oldkernels 1.0")


def test_what_another_wheel_loads_before_is_a_note(tmp_path: Path) -> None:
    torch = make.wheel("torch", "2.13.0", {"torch/lib/libtorch.so": make.elf(soname="libtorch.so", defines=["T_1"])})
    vllm = make.wheel(
        "vllm", "0.29.0", {"vllm/_C.abi3.so": make.elf(needed=["libtorch.so"], needs={"libtorch.so": ["T_2"]})}
    )
    findings = check(tmp_path, torch, vllm)
    assert [finding.severity for finding in findings] == ["note", "error"]
    assert "torch/lib/libtorch.so, which has to be loaded before" in findings[0].what
    assert "needs T_2 of libtorch.so" in findings[1].what, "versions are checked there, too"


def test_nothing_is_loaded_before_a_program(tmp_path: Path) -> None:
    interpreter = "/lib64/ld-linux-x86-64.so.2"
    files = {
        "nixl/libnixl.so": make.elf(soname="libnixl.so"),
        "x/run": make.elf(needed=["libnixl.so"], interpreter=interpreter),
    }
    (finding,) = problems(check(tmp_path, {"lib64/ld-linux-x86-64.so.2": make.elf(), **make.wheel("nixl", "1", files)}))
    assert finding.subject == f"{make.SITE}/x/run needs libnixl.so"


def test_a_packages_own_library_is_meant(tmp_path: Path) -> None:
    own = {"triton/_C/libtriton.so": make.elf(soname="libtriton.so"), "triton/x.so": make.elf(needed=["libtriton.so"])}
    other = {"other/_C/libtriton.so": make.elf(soname="libtriton.so", build_id=b"2")}
    assert problems(check(tmp_path, make.wheel("triton", "3.7.1", own), make.wheel("other", "1", other))) == []


def test_what_auditwheel_vendored_twice_is_a_note(tmp_path: Path) -> None:
    name = "libXau-154567c4.so.6.0.0"
    wheels = [
        make.wheel(
            w,
            "1",
            {
                f"{w}.libs/{name}": make.elf(soname=name, build_id=w.encode()),
                f"{w}/x.so": make.elf(needed=[name], rpath=f"$ORIGIN/../{w}.libs"),
            },
        )
        for w in ("av", "pillow")
    ]
    (finding,) = check(tmp_path, *wheels)
    assert (finding.subject, finding.severity) == (name, "note")


def test_another_venv_loads_nothing_before(tmp_path: Path) -> None:
    other: Members = {"opt/other/lib/python3.11/site-packages/torch/lib/libtorch.so": make.elf(soname="libtorch.so")}
    vllm = make.wheel("vllm", "0.29.0", {"vllm/_C.abi3.so": make.elf(needed=["libtorch.so"])})
    (finding,) = problems(check(tmp_path, other, vllm))
    assert "the loader does not find" in finding.what


def test_two_that_could_be_loaded_before(tmp_path: Path) -> None:
    one = make.wheel("one", "1", {"one/libx.so": make.elf(soname="libx.so")})
    two = make.wheel("two", "1", {"two/libx.so": make.elf(soname="libx.so", build_id=b"2")})
    user = make.wheel("user", "1", {"user/_C.so": make.elf(needed=["libx.so"])})
    (finding,) = problems(check(tmp_path, one, two, user))
    assert finding.what.startswith("2 different files are called libx.so")


def test_equal_copies_are_one(tmp_path: Path) -> None:
    library = make.elf(soname="libx.so.0")
    one = make.wheel("one", "1", {f"one/libx.so{end}": library for end in ("", ".0", ".0.0")})
    user = make.wheel("user", "1", {"user/_C.so": make.elf(needed=["libx.so.0"])})
    assert problems(check(tmp_path, one, user)) == []


def test_two_files_that_answer_to_one_name(tmp_path: Path) -> None:
    system: Members = {
        "usr/lib/libgomp.so.1": make.elf(soname="libgomp.so.1"),
        "usr/bin/a": make.elf(needed=["libgomp.so.1"]),
    }
    torch = make.wheel(
        "torch",
        "2.13.0",
        {
            "torch/lib/libgomp.so.1": make.elf(soname="libgomp.so.1", build_id=b"t"),
            "torch/lib/libtorch.so": make.elf(needed=["libgomp.so.1"], runpath="$ORIGIN"),
        },
    )
    (finding,) = problems(check(tmp_path, system, torch))
    assert finding.subject == "libgomp.so.1"
    assert "usr/bin/a" in finding.what
    assert "torch/lib/libtorch.so" in finding.what


@pytest.mark.parametrize(
    "name", ["libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvcuvid.so.1"]
)
def test_what_the_driver_brings_is_not_missed(tmp_path: Path, name: str) -> None:
    assert check(tmp_path, {"usr/lib/a.so": make.elf(needed=[name], needs={name: ["V_1"]})}) == []


@pytest.mark.parametrize("name", ["libcudart.so.13", "libcufile.so.0", "libnvrtc.so.13", "libcudnn.so.9"])
def test_what_the_driver_does_not_bring_is(tmp_path: Path, name: str) -> None:
    assert len(problems(check(tmp_path, {"usr/lib/a.so": make.elf(needed=[name])}))) == 1


def test_a_missing_glibc_version(tmp_path: Path) -> None:
    user: Members = {"usr/bin/a": make.elf(needed=["libc.so.6"], needs={"libc.so.6": ["GLIBC_2.38"]})}
    (finding,) = problems(check(tmp_path, user))
    assert "GLIBC_2.38" in finding.what


def test_a_provider_without_versions_is_a_warning(tmp_path: Path) -> None:
    user: Members = {
        "usr/bin/a": make.elf(needed=["liby.so"], needs={"liby.so": ["Y_1"]}),
        "usr/lib/liby.so": make.elf(),
    }
    (finding,) = check(tmp_path, user)
    assert finding.severity == "warning"


def test_wrong_machine(tmp_path: Path) -> None:
    members: Members = {"usr/lib/a.so": make.elf(machine=183), "usr/lib/b.so": make.elf(bits=32, machine=3)}
    findings = problems(check(tmp_path, members))
    assert [finding.subject for finding in findings] == ["usr/lib/a.so", "usr/lib/b.so"]
    assert "for arm64 (64 bits), the image is for amd64" in findings[0].what


def test_device_code_may_be_for_the_gpu(tmp_path: Path) -> None:
    assert check(tmp_path, {"opt/kernel.cubin": make.elf(machine=190, bits=64)}) == []


def test_a_missing_interpreter(tmp_path: Path) -> None:
    (finding,) = problems(check(tmp_path, {"usr/bin/a": make.elf(interpreter="/lib/ld-musl-x86_64.so.1")}))
    assert "/lib/ld-musl-x86_64.so.1 is not in the image" in finding.what


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (finding,) = problems(check(tmp_path, make.wheel("x", "1", {"x/_C.so": make.elf(soname="x")[:150]})))
    assert finding.subject == f"{make.SITE}/x/_C.so"
    assert "wheel x 1 has a damaged ELF file" in finding.what


def test_an_arm64_image(tmp_path: Path) -> None:
    libc = make.elf(soname="libc.so.6", machine=183)
    members: Members = {
        "usr/lib/aarch64-linux-gnu/libc.so.6": libc,
        "usr/bin/a": make.elf(machine=183, needed=["libc.so.6"]),
    }
    image = read_image(make.layout(tmp_path, [members], architecture="arm64"))
    assert list(abi.check(image, GateSettings())) == []
