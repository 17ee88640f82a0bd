"""Reading and checking a configuration before anything starts. Nothing here imports Ray or vLLM, but `collect`."""
