"""`--load`: an OCI layout, streamed into a container engine."""
