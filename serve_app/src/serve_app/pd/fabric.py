"""Which NIXL backend carries the KV cache."""

from __future__ import annotations

from pathlib import Path

SYS = Path("/sys/class/infiniband_verbs")
EFA_DRIVER = "efa"


def efa_here(dev: Path = Path("/dev/infiniband"), sys: Path = SYS) -> bool:
    """True when one of this node's verbs devices is an EFA.

    Not asked of /sys/class/net: a pod sees no EFA interface there (https://github.com/ray-project/ray/issues/62339).
    """
    for device in sorted(dev.glob("uverbs*")):
        driver = sys / device.name / "device" / "driver"
        try:
            if driver.resolve().name == EFA_DRIVER:
                return True
        except OSError:
            continue
    return False


def backends(fabric: str, efa: bool) -> tuple[list[str], str]:
    """NIXL's backend list and why."""
    if fabric == "auto":
        return (["LIBFABRIC"], "derived: an EFA device is here") if efa else (["UCX"], "derived: no EFA device is here")
    chosen = {"efa": "LIBFABRIC", "libfabric": "LIBFABRIC", "ucx": "UCX"}[fabric]
    return [chosen], "derived from kv_transfer.fabric"
