"""Two nodes that run the image: tests/gpu/harness."""

from tests.gpu.harness.fixtures import need, options, pair

__all__ = ["need", "options", "pair"]
