"""The names under which replicas report and rules read."""

KV_USE = "serve_app_kv_use"
"""0 to 1: the part of the KV blocks that requests hold."""
QUEUED_TOKENS = "serve_app_queued_prompt_tokens"
"""Prompt tokens that wait for their computation, or are in it."""
WAITING = "serve_app_waiting"
"""Requests that the engine has not begun."""
