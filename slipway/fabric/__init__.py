"""What carries the KV cache between nodes: libfabric from its pinned source, and the cpu variant's CUDA stand-ins."""
