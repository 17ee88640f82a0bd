"""Debian: what a package is, a root file system made of locked ones by mmdebstrap, and what of it enters the image."""
