"""A Docker engine to load images into and to run container tests in: one that runs already, or one of our own.

The rest of the driver needs none: images are assembled without an engine.
"""
