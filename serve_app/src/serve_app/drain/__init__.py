"""Taking no new requests while the running ones end: by SIGTERM, or by `serve_app drain`."""
