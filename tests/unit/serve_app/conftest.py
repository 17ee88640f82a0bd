"""The application builder is a project of its own: its sources are put on the path here."""

from __future__ import annotations

import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "serve_app" / "src"
if str(SOURCES) not in sys.path:
    sys.path.insert(0, str(SOURCES))
