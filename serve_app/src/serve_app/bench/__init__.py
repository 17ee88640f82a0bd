"""`serve_app bench`: prefill/decode against one node, in one run, with an existing load generator.

The load comes from vLLM's own `vllm bench serve` (vllm.benchmarks.serve): it is in the image already, sends open-loop
arrivals (Poisson or gamma), makes prompts of an exact number of tokens, and keeps every request's times. AIPerf and
guidellm can do that too, but bring 40 and more packages into an image that serves.
"""
