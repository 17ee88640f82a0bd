"""What an image's pins say about gates.

versions.toml, for a variant:

    [releases."2.60".variants.cpu.gates.abi]
    "*/libplugin_GDS*.so needs libcufile.so.0" = "NIXL's GPUDirect Storage plugin: there is no GPU here"

The last part of the table's name is a gate (names.NAMES), each key a pattern of a finding's subject, each value the
reason. `setuid` and `budget` have had tables of their own from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.gates.model import GateSettings
from slipway.pins import Selection


def settings_of(selection: Selection) -> GateSettings:
    """The selection's budget and excuses."""
    gates: Mapping[str, Mapping[str, str]] = getattr(selection, "gates", {})
    excuses = {name: dict(table) for name, table in gates.items()}
    excuses["setuid"] = {**selection.setuid, **excuses.get("setuid", {})}
    return GateSettings(compressed_mb=selection.budget.compressed_mb, excuses=excuses)
