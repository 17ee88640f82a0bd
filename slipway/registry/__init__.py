"""A client for container registries: pulls and pushes blobs and manifests by the OCI distribution specification 1.1
(https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md), without a container engine."""
