"""Images: OCI configuration, manifest and layout made from finished layers."""
