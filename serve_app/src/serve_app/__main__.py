"""`python -m serve_app` is the same as the `serve_app` command."""

from serve_app.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
