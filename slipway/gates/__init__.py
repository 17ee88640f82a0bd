"""Checks on a built image that can stop it: one gate per file, each with what it proves."""
