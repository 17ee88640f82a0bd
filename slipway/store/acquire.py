"""Gets what the store lacks: each artifact from the first source that has it, several at a time.

Apart from slipway.store.fetch, because a build that lacks nothing has no use for HTTP clients.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipway.lock.model import Artifact
from slipway.progress import Part as Row
from slipway.progress import Progress, Step, size_text
from slipway.registry.copy import RegistryCopy
from slipway.registry.reference import parse_reference
from slipway.sources.address import redact
from slipway.sources.choose import choose
from slipway.sources.folder import Folder
from slipway.sources.http import Http
from slipway.sources.origin import Offer, Origin, Place
from slipway.sources.outcome import Absent, NotHad, WrongBytes
from slipway.sources.settings import HttpSettings
from slipway.store.download import copy, download
from slipway.store.parallel import each
from slipway.store.part import Part
from slipway.store.report import Finding
from slipway.store.store import Store
from slipway.store.trouble import explained

if TYPE_CHECKING:
    from slipway.store.fetch import FetchOptions


class Acquisition:
    """One run over what is missing. After `run`: what came from where, what others brought, what can't be had."""

    def __init__(self, store: Store, options: FetchOptions, progress: Progress, cancel: threading.Event) -> None:
        self.fetched = 0
        self.size = 0
        self.brought_by_others = 0
        self.origins: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self._store = store
        self._options = options
        self._progress = progress
        self._cancel = cancel
        self._lock = threading.Lock()
        self._sources: list[Origin] = []

    def run(self, missing: Sequence[Artifact]) -> None:
        """Largest first: one big file begun last would be waited for alone."""
        self._sources = self._find_sources(missing)
        ordered = sorted(missing, key=lambda artifact: (-artifact.size, artifact.name))
        with self._progress.step("fetch", sum(artifact.size for artifact in ordered), "bytes") as step:
            each(ordered, lambda artifact: self._one(artifact, step), self._options.downloads, self._cancel)
            step.note(f"{self.fetched} files, {size_text(self.size)}")

    def _http(self, settings: HttpSettings) -> Http:
        return Http(
            settings,
            self._options.policy,
            cancel=self._cancel,
            notify=self._progress.warn,
            connections=self._options.downloads,
        )

    def _find_sources(self, missing: Sequence[Artifact]) -> list[Origin]:
        origins: list[Origin] = [Folder(folder) for folder in self._options.folders]
        if self._options.registry_copy:
            origins.append(RegistryCopy(parse_reference(self._options.registry_copy), self._http(HttpSettings())))
        return [*origins, *choose(missing, self._options.mirrors, self._options.defaults, self._http)]

    def _one(self, artifact: Artifact, step: Step) -> None:
        with (
            step.part(artifact.name, artifact.size) as row,
            self._store.part(artifact.sha256, artifact.size, self._cancel) as part,
        ):
            if part is None:  # another process has brought it meanwhile
                row.advance(artifact.size)
                with self._lock:
                    self.brought_by_others += 1
                return
            row.advance(part.position)
            attempts: list[NotHad] = []
            for origin in self._sources:
                if self._try(origin, artifact, part, row, attempts):
                    self._store.publish(part)
                    with self._lock:
                        self.fetched += 1
                        self.size += artifact.size
                        self.origins[origin.name] += 1
                    self._warn(artifact, attempts)
                    return
        finding = Finding(artifact, tuple(attempts), tuple(self._offers(artifact)))
        with self._lock:
            self.findings.append(finding)

    def _try(self, origin: Origin, artifact: Artifact, part: Part, row: Row, attempts: list[NotHad]) -> bool:
        """Whether one source had it. What its addresses said instead is added to `attempts`."""
        places = origin.places(artifact)
        while True:
            try:
                place = next(places, None)
            except NotHad as error:
                attempts.append(error)
                return False
            if place is None:
                return False
            try:
                with explained(self._store.root):
                    self._get(place, artifact, part, row)
            except NotHad as error:
                if not (place.guess and isinstance(error, Absent | WrongBytes)):
                    attempts.append(error)
                continue
            return True

    def _get(self, place: Place, artifact: Artifact, part: Part, row: Row) -> None:
        if place.sha256 and place.sha256 != artifact.sha256:
            raise WrongBytes(redact(place.address), "its index announces other bytes", place.sha256)
        if place.path is not None:
            copy(place.path, part, row.advance, self._cancel)
        elif place.http is not None:
            download(place.http, place.address, part, row.advance, place.headers)

    def _warn(self, artifact: Artifact, attempts: Sequence[NotHad]) -> None:
        for attempt in attempts:
            if isinstance(attempt, WrongBytes):
                self._progress.warn(
                    f"{artifact.label}: {attempt.address} has another file under this name"
                    f" ({attempt.reason}{f', sha256 {attempt.sha256}' if attempt.sha256 else ''}; locked is "
                    f"{artifact.sha256}); the right one came from elsewhere"
                )

    def _offers(self, artifact: Artifact) -> list[Offer]:
        offers: list[Offer] = []
        for origin in self._sources:
            try:
                offers += origin.offered(artifact)
            except NotHad:
                continue
        return offers
