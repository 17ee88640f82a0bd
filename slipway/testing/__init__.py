"""What `build.py test` does before pytest runs: an image to test, in an engine."""
