"""`build.py doctor`: can this machine build, load and test images, and what to do if not. One check per file."""
