"""What `build.py test gpu` is to run on: options of the command line, carried to the tests in the environment."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import UsageError

PREFIX = "SLIPWAY_TEST_"
FABRICS, DEVICES, TIERS = ("tcp", "efa"), ("cpu", "cuda"), ("quick", "full")
MISSING = {"efa": "no EFA device", "cuda": "no GPU"}


@dataclass(frozen=True)
class TwoNodes:
    """fabric, device: "auto" is what the machine has. require: what must be there, or the tests that need it fail
    instead of not running. nodes: how each node is reached; empty: two containers of this machine.
    """

    fabric: str = "auto"
    device: str = "auto"
    require: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    tier: str = "quick"

    def as_environment(self) -> dict[str, str]:
        """Variables for the tests."""
        values = {"FABRIC": self.fabric, "DEVICE": self.device, "REQUIRE": ",".join(self.require),
                  "NODES": "\n".join(self.nodes), "TIER": self.tier}  # fmt: skip
        return {f"{PREFIX}{name}": value for name, value in values.items() if value}

    @staticmethod
    def read(environ: Mapping[str, str]) -> TwoNodes:
        """From such variables; what is not there is the default."""

        def value(name: str, default: str = "") -> str:
            return environ.get(f"{PREFIX}{name}", default)

        split = tuple(word for word in value("REQUIRE").split(",") if word)
        nodes = tuple(line for line in value("NODES").splitlines() if line)
        return TwoNodes(value("FABRIC", "auto"), value("DEVICE", "auto"), split, nodes, value("TIER", "quick"))

    def wanted_fabric(self, there: bool) -> str:
        """The fabric to test, given whether EFA devices are there."""
        return self.fabric if self.fabric != "auto" else "efa" if there else "tcp"

    def wanted_device(self, there: bool) -> str:
        """Where the KV cache lies, given whether GPUs are there."""
        return self.device if self.device != "auto" else "cuda" if there else "cpu"

    def verdict_on_missing(self, what: str) -> tuple[bool, str]:
        """(whether that is a failure, what to say) of a test that needs `what` ("efa", "cuda"), which is not there."""
        asked = what in self.require or what in (self.fabric, self.device)
        return asked, f"{'required and not there' if asked else 'not run'}: {MISSING[what]}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the gpu suite."""
    group = parser.add_argument_group("the gpu suite, on two nodes")
    group.add_argument(
        "--fabric", choices=("auto", *FABRICS), default="auto", help="default: efa where it is, else tcp"
    )
    group.add_argument(
        "--device", choices=("auto", *DEVICES), default="auto", help="default: cuda where it is, else cpu"
    )
    group.add_argument(
        "--require", default="", metavar="efa,cuda", help="fail where this is missing, instead of not running"
    )
    form = "`ssh HOST docker exec -i NAME`, `kubectl exec -i POD --`, or `local` (this pod)"
    group.add_argument(
        "--nodes", default="", metavar="A,B", help=f"two that run the image, not containers here: {form}"
    )
    group.add_argument(
        "--tier", choices=TIERS, default="quick", help="quick: at most 15 minutes on two cores; full: 60"
    )


def of(args: argparse.Namespace) -> TwoNodes:
    """Raises UsageError."""
    require = tuple(word for word in args.require.split(",") if word)
    if unknown := set(require) - set(MISSING):
        raise UsageError(f"--require knows efa and cuda, not {', '.join(sorted(unknown))}")
    nodes = tuple(word.strip() for word in args.nodes.split(",") if word.strip())
    if nodes and len(nodes) != 2:
        raise UsageError(f"--nodes wants two, and has {len(nodes)}")
    return TwoNodes(args.fabric, args.device, require, nodes, args.tier)


def prefix(node: str) -> tuple[str, ...]:
    """The words before a command that is to run inside the image on a node of --nodes."""
    return () if node == "local" else tuple(shlex.split(node))


def efa_here(sys: Path = Path("/sys/class/infiniband_verbs")) -> bool:
    """Whether this machine has an EFA device."""
    return any((device / "device/driver").resolve().name == "efa" for device in sys.glob("uverbs*"))


def gpu_here(dev: Path = Path("/dev")) -> bool:
    """Whether this machine has an NVIDIA GPU."""
    return any(path.name[6:].isdigit() for path in dev.glob("nvidia*"))
