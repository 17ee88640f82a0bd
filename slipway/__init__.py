"""Slipway: assembles, proves and ships the container image in which Ray Serve LLM runs a large model across nodes."""
