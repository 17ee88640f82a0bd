"""Pins: versions.toml, the only place where a version stands."""

from __future__ import annotations

from slipway.pins.load import Pins, load, loads
from slipway.pins.model import Alias, Contested, Installer, Libfabric, Requirement, Selection

__all__ = ["Alias", "Contested", "Installer", "Libfabric", "Pins", "Requirement", "Selection", "load", "loads"]
