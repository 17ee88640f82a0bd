"""Where wheels come from: folders, link pages and simple indexes, as pip uses them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urljoin

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from slipway.lock.model import Artifact, Wheel
from slipway.sources.address import join, local_path, redact
from slipway.sources.http import Http
from slipway.sources.origin import Offer, Place
from slipway.sources.outcome import Absent, NotHad
from slipway.sources.simple import ACCEPT, PAGE_LIMIT, Link, normal, parse_page


class WheelFolder:
    """A folder of this machine: wheels side by side, or laid out as a simple index (`<name>/index.html`)."""

    def __init__(self, root: Path) -> None:
        self.name = f"folder {root}"
        self._root = root

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if not isinstance(artifact, Wheel):
            return
        project = self._root / normal(artifact.name)
        found = [path for path in (self._root / artifact.file, project / artifact.file) if path.is_file()]
        for path in found:
            yield Place(str(path), path=path)
        listed = [link for link in self._links(project) if link.file == artifact.file] if not found else []
        for link in listed:
            yield Place(link.url, path=local_path(link.url), sha256=link.sha256)
        if not found and not listed:
            raise Absent(str(self._root), f"no {artifact.file} in it")

    def offered(self, artifact: Artifact) -> list[Offer]:
        if not isinstance(artifact, Wheel):
            return []
        project = self._root / normal(artifact.name)
        files = [path.name for folder in (self._root, project) for path in folder.glob("*.whl")]
        return newest(artifact, [*files, *(link.file for link in self._links(project))], str(self._root))

    def _links(self, project: Path) -> list[Link]:
        try:
            return parse_page((project / "index.html").read_bytes(), "text/html", f"{project.as_uri()}/")
        except (OSError, ValueError):
            return []


class WheelIndex:
    """A simple index on a server (PEP 503, PEP 691). A project's page is read once.

    local_versions_only: the index holds one project's own builds and is asked for versions such as 2.13.0+cpu alone.
    """

    def __init__(self, url: str, http: Http, *, local_versions_only: bool = False) -> None:
        self.name = f"index {redact(url)}"
        self._url = url
        self._http = http
        self._local_versions_only = local_versions_only
        self._pages = _Once(lambda page: read_page(page, http))

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if self._serves(artifact):
            yield from _on_page(artifact, self._pages.get(self._page(artifact)), self._http, self._page(artifact))

    def offered(self, artifact: Artifact) -> list[Offer]:
        if not self._serves(artifact):
            return []
        page = self._page(artifact)
        return newest(artifact, (link.file for link in self._pages.get(page)), redact(page))

    def _page(self, artifact: Artifact) -> str:
        return f"{self._url.rstrip('/')}/{normal(artifact.name)}/"

    def _serves(self, artifact: Artifact) -> bool:
        return isinstance(artifact, Wheel) and ("+" in artifact.version or not self._local_versions_only)


class LinkPage:
    """A page of links to wheels, for all projects (pip's find-links with an address)."""

    def __init__(self, url: str, http: Http) -> None:
        self.name = f"link page {redact(url)}"
        self._url = url
        self._http = http
        self._pages = _Once(lambda page: read_page(page, http))

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if isinstance(artifact, Wheel):
            yield from _on_page(artifact, self._pages.get(self._url), self._http, self._url)

    def offered(self, artifact: Artifact) -> list[Offer]:
        if not isinstance(artifact, Wheel):
            return []
        return newest(artifact, (link.file for link in self._pages.get(self._url)), redact(self._url))


class WheelServer:
    """What `--mirror wheels=URL` may be: a simple index, or a folder of wheels that some server hands out."""

    def __init__(self, url: str, http: Http) -> None:
        self.name = f"mirror {redact(url)}"
        self._index = WheelIndex(url, http)
        self._url = url
        self._http = http

    def places(self, artifact: Artifact) -> Iterator[Place]:
        if not isinstance(artifact, Wheel):
            return
        try:
            yield from self._index.places(artifact)
        except Absent:
            yield Place(join(self._url, artifact.file), http=self._http)

    def offered(self, artifact: Artifact) -> list[Offer]:
        if not isinstance(artifact, Wheel):
            return []
        try:
            return self._index.offered(artifact)
        except Absent:
            files = (link.file for link in read_page(f"{self._url.rstrip('/')}/", self._http))
            return newest(artifact, files, redact(self._url))


def _on_page(artifact: Artifact, links: Iterable[Link], http: Http, page: str) -> Iterator[Place]:
    """The links to one file; one with the locked hash first, then those without a hash, then those with another."""
    found = [link for link in links if link.file == artifact.file]
    if not found:
        raise Absent(redact(page), f"no {artifact.file} on this page")
    for link in sorted(found, key=lambda link: (link.sha256 != artifact.sha256, bool(link.sha256))):
        path = local_path(link.url)
        yield (
            Place(redact(link.url), path=path, sha256=link.sha256)
            if path
            else Place(link.url, http=http, sha256=link.sha256)
        )


def read_page(page: str, http: Http) -> list[Link]:
    """The links of one page. Raises Absent, Refused, Unreachable."""
    content, response = http.get(page, headers={"Accept": ACCEPT}, limit=PAGE_LIMIT)
    base = urljoin(page, response.geturl() or "")  # where redirects led to
    return parse_page(content, response.headers.get("Content-Type", ""), base)


def newest(artifact: Artifact, files: Iterable[str], address: str) -> list[Offer]:
    """The newest version of a wheel among file names, as one offer; none where there is no wheel of that name."""
    versions: set[Version] = set()
    for file in files:
        try:
            name, version, _build, _tags = parse_wheel_filename(file)
        except (InvalidWheelFilename, ValueError):
            continue
        if name == canonicalize_name(artifact.name):
            versions.add(version)
    stable = [version for version in versions if not version.is_prerelease] or list(versions)
    return [Offer(str(max(stable)), address)] if stable else []


class _Once:
    """Reads each page once, also when several threads want it at the same time; failures are kept too."""

    def __init__(self, read: Callable[[str], list[Link]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._known: dict[str, list[Link] | NotHad] = {}

    def get(self, page: str) -> list[Link]:
        with self._lock:
            own = self._locks.setdefault(page, threading.Lock())
        with own:
            if page not in self._known:
                try:
                    self._known[page] = self._read(page)
                except NotHad as error:
                    self._known[page] = error
            known = self._known[page]
        if isinstance(known, NotHad):
            raise known
        return known
