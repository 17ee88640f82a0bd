"""`serve_app doctor`: what of this node will stop the KV cache, slow it down, or let it take another way than asked.

One check a file in `checks`; each is a generator of findings over a Node, which reads everything through a root folder
and a few functions that a test puts its own in place of.
"""
