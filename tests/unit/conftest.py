"""Property tests don't time: a busy machine must not make one fail."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("slipway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slipway")
