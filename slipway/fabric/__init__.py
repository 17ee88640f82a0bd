"""What carries the KV cache between nodes: libfabric, compiled from its pinned source, and the cpu variant's CUDA stubs."""
