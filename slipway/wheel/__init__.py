"""Wheels: read, checked and turned into the files that installing them gives, without unpacking anything to disk.

The format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""
