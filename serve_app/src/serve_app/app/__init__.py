"""The application builders behind the Serve import paths."""
