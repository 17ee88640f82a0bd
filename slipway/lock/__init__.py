"""Locks: the exact bytes a release is made of, one file per release, variant and architecture."""
