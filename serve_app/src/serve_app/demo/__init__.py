"""A tiny model that is made here: no download, no GPU, the same bytes each time."""
