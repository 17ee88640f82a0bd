"""Tests of deploy/eks, without a cluster: manifests, scripts, documentation. Seconds, no engine.

The application builder's sources are put on the path: serveConfigV2 goes through its own validation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.deploy import manifests

SOURCES = Path(__file__).resolve().parents[2] / "serve_app" / "src"
if str(SOURCES) not in sys.path:
    sys.path.insert(0, str(SOURCES))


@pytest.fixture(params=manifests.VARIANTS, ids=str)
def variant(request: pytest.FixtureRequest) -> manifests.Variant:
    """Every overlay, and every component on one that takes it."""
    found: manifests.Variant = request.param
    return found
