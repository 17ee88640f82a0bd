"""Archives of all that Debian ever published, for .debs that no mirror has any more. None is configured by default.

`--mirror snapshot=URL` names one in either of two ways:

- URL holds a time (`…/archive/debian/20261130T120000Z`): the pool path is looked up below it, as on a mirror. Name one
  for the security archive too. Any frozen copy of a mirror works this way.
- else URL is the root of a service with Debian's snapshot interface
  (file `API` in that service's source, snapshot-team/snapshot on Salsa): the package's name and version give the file's
  sha1 (`/mr/binary/…/binfiles`, `/mr/package/…/srcfiles`), that gives the file (`/file/<sha1>`), whatever its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from slipway.lock.model import Artifact, Deb, PoolFile
from slipway.sources.address import join, local_path, redact
from slipway.sources.http import Http
from slipway.sources.origin import Offer, Place
from slipway.sources.outcome import Absent

TIME = re.compile(r"/\d{8}T\d{6}Z(/|$)")
ANSWER_LIMIT = 8 << 20


class Snapshot:
    """One archive of old packages."""

    def __init__(self, url: str, http: Http) -> None:
        self.name = f"snapshot archive {redact(url)}"
        self._url = url.rstrip("/")
        self._http = http

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if not isinstance(artifact, PoolFile):
            return
        folder = local_path(self._url)
        if folder is not None:
            yield Place(str(folder / artifact.path), path=folder / artifact.path)
        elif TIME.search(self._url):
            yield Place(join(self._url, artifact.path), http=self._http)
        else:
            for sha1 in self._sha1s(artifact):
                yield Place(f"{self._url}/file/{sha1}", http=self._http)

    def offered(self, artifact: Artifact) -> list[Offer]:
        return []

    def _sha1s(self, artifact: PoolFile) -> list[str]:
        """The sha1 of every file of this name and version that the archive knows, those of the right size first."""
        found: dict[str, object] = {}
        for version in [artifact.version] if isinstance(artifact, Deb) else self._source_versions(artifact):
            kind, files = ("binary", "binfiles") if isinstance(artifact, Deb) else ("package", "srcfiles")
            answer = self._ask(f"mr/{kind}/{quote(artifact.name)}/{quote(version, safe='')}/{files}?fileinfo=1")
            infos = answer.get("fileinfo")
            for sha1, entries in infos.items() if isinstance(infos, dict) else ():
                for entry in entries if isinstance(entries, list) else ():
                    if isinstance(entry, dict) and entry.get("name") == artifact.file and re.fullmatch(r"\w{40}", sha1):
                        found[sha1] = entry.get("size")
        if not found:
            raise Absent(redact(self._url), f"knows no {artifact.file}")
        return sorted(found, key=lambda sha1: found[sha1] != artifact.size)

    def _source_versions(self, artifact: PoolFile) -> list[str]:
        """Debian versions of a source package whose upstream part, or whole, is the locked version."""
        rows = self._ask(f"mr/package/{quote(artifact.name)}/").get("result")
        rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        versions = [str(row.get("version", "")) for row in rows]
        wanted = artifact.version
        return [version for version in versions if version == wanted or version.startswith(f"{wanted}-")]

    def _ask(self, path: str) -> dict[str, Any]:
        url = f"{self._url}/{path}"
        content, _response = self._http.get(url, limit=ANSWER_LIMIT)
        try:
            answer = json.loads(content)
        except ValueError:
            raise Absent(redact(url), "did not answer with JSON") from None
        return answer if isinstance(answer, dict) else {}
