"""Prefill on one node, decode on another, behind one OpenAI endpoint.

Graph: Ingress → DecodeServer (own engine, asks prefill for the prompt's KV cache) → PrefillServer.
"""
