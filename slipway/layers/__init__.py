"""Layers: deterministic tars, zstd-compressed, known by the key of their inputs."""
