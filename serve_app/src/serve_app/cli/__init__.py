"""The `serve_app` command: one file a verb. Nothing here imports Ray, so that `--help` is quick."""
