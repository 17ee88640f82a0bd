"""Where the EFA installer's tarball lies: a folder, here or on a server, that holds it under its name."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.lock.model import Artifact, EfaInstaller
from slipway.sources.address import join, local_path, redact
from slipway.sources.http import Http
from slipway.sources.origin import Offer, Place


class EfaFolder:
    """One place to look in."""

    def __init__(self, url: str, http: Http) -> None:
        self.name = f"EFA installers at {redact(url)}"
        self._url = url
        self._http = http

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if not isinstance(artifact, EfaInstaller):
            return
        folder = local_path(self._url)
        if folder is not None:
            yield Place(str(folder / artifact.file), path=folder / artifact.file)
        else:
            yield Place(join(self._url, artifact.file), http=self._http)

    def offered(self, artifact: Artifact) -> list[Offer]:
        return []
