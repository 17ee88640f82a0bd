"""The reference build with BuildKit and uv: its context, how it is run, and how its files compare with ours."""
