"""Makes the demo model's folder, once per cache."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from serve_app.demo import shape, text, tokenizer, weights
from serve_app.errors import MissingError

FORMAT = 1
"""Raised whenever the made files change, so that a cached folder of an older version is not taken."""

MARK = "complete"


def make(out: Path) -> Path:
    """Writes the model into `out`, which is created; files that are there already are replaced.

    Raises MissingError when the folder can't be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        document, vocabulary = tokenizer.train(text.training_text())
        (out / "tokenizer.json").write_bytes(document)
        (out / "tokenizer_config.json").write_bytes(shape.to_bytes(shape.tokenizer_config()))
        (out / "config.json").write_bytes(shape.to_bytes(shape.model_config(vocabulary)))
        (out / "generation_config.json").write_bytes(shape.to_bytes(shape.generation_config()))
        with (out / "model.safetensors").open("wb") as file:
            weights.write(file, vocabulary)
    except OSError as error:
        raise MissingError(f"The demo model can't be written to {out}: {error}") from error
    return out


def cached(cache: Path) -> Path:
    """The demo model's folder under `cache`, made if it is not there.

    Made beside its place and renamed, so that two processes and a kill at any moment leave no half model.
    """
    home = cache / f"demo-model-{FORMAT}"
    if (home / MARK).exists():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".demo-model-", dir=cache))
    except OSError as error:
        raise MissingError(f"The cache folder {cache} can't be written: {error}; set SERVE_APP_CACHE") from error
    try:
        make(scratch)
        scratch.chmod(0o755)
        (scratch / MARK).touch()
        try:
            scratch.rename(home)
        except OSError:
            if not (home / MARK).exists():  # what an earlier version or a broken copy left: nobody uses it
                shutil.rmtree(home, ignore_errors=True)
                scratch.rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return home
