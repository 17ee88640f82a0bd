"""What tests and benchmarks stand on: an image in an engine, registries, a proxy that breaks pushes."""
