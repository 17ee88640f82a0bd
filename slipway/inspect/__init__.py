"""Reading built images back: OCI layouts, layer tars, ELF files, and the tree that the layers make together."""
