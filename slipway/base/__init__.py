"""Somebody else's image under ours, instead of the Debian layer: what it must have, and how it becomes layers."""
