"""Pushing finished images: their tags, where they go, and what is sent in which order."""
