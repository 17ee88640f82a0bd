from __future__ import annotations

from hypothesis import settings

# A busy machine must not fail a test that says nothing about time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
