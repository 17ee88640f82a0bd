"""What a user reads when artifacts can't be had: all of them at once, each with where it was looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slipway.errors import MissingError, SlipwayError, WrongArtifact
from slipway.lock.model import Artifact, EfaInstaller, PoolFile, Source
from slipway.sources.origin import Offer
from slipway.sources.outcome import NotHad, Refused, Unreachable, WrongBytes

Kind = Literal["wrong", "gone", "unreachable"]


@dataclass(frozen=True)
class Finding:
    """One artifact that could not be had: what each address said, and what sources have instead of it now."""

    artifact: Artifact
    attempts: tuple[NotHad, ...]
    offers: tuple[Offer, ...] = ()

    @property
    def kind(self) -> Kind:
        """wrong: other bytes stand under its name. gone: no source has it, or one has another version instead.
        unreachable: a source that may have it could not be asked. The EFA installer, which has one source, is always
        that: it can be carried here."""
        if any(isinstance(attempt, WrongBytes) for attempt in self.attempts):
            return "wrong"
        if isinstance(self.artifact, EfaInstaller):
            return "unreachable"
        if self.other_versions:
            return "gone"
        return "unreachable" if any(isinstance(a, Refused | Unreachable) for a in self.attempts) else "gone"

    @property
    def other_versions(self) -> tuple[Offer, ...]:
        return tuple(offer for offer in self.offers if offer.version != self.artifact.version)

    @property
    def remedy(self) -> str:
        """What helps against it."""
        what = "debian" if isinstance(self.artifact, PoolFile) else self.artifact.name
        upgrade = f"python3 build.py lock --upgrade {what}"
        if isinstance(self.artifact, Source):
            upgrade = f"pin another {self.artifact.name} in versions.toml and run python3 build.py lock"
        if isinstance(self.artifact, EfaInstaller) and self.kind != "wrong":
            return (
                f"bring {self.artifact.file} here in a folder and name that (--from DIR), or the place that has it "
                '(--mirror efa=PLACE); or set fabric = "source" in versions.toml and lock again: libfabric is compiled '
                "then, NCCL does not use EFA, and the image is no production one"
            )
        if self.kind == "gone":
            return (
                f"{upgrade}; or, to build from the old lock, name a folder (--from), a registry copy (--registry-copy) "
                "or a snapshot archive (--mirror snapshot=URL) that has it"
            )
        if self.kind == "wrong":
            return (
                f"find out who is right before anything else. If the source is: {upgrade}. If the lock is: name "
                "another source with --mirror or --from"
            )
        return "see to the network, the proxy (HTTPS_PROXY, NO_PROXY) or the login; or name other sources with --mirror"

    def __str__(self) -> str:
        heads = {
            "wrong": "another file stands under its name",
            "gone": "gone from every source" if self.attempts else "no source is configured that could have it",
            "unreachable": "its sources can't be reached",
        }
        lines = [f"{self.artifact.label}: {heads[self.kind]}", f"  locked: version {self.artifact.version}"]
        if self.kind == "wrong":
            lines[-1] += f", sha256 {self.artifact.sha256}"
        lines += [f"  offered now: version {offer.version} ({offer.address})" for offer in self.other_versions]
        for attempt in self.attempts:
            hashed = f", sha256 {attempt.sha256}" if isinstance(attempt, WrongBytes) and attempt.sha256 else ""
            lines.append(f"  looked at: {attempt.address}: {attempt.reason}{hashed}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.artifact.name,
            "version": self.artifact.version,
            "file": self.artifact.file,
            "sha256": self.artifact.sha256,
            "offered": [{"version": offer.version, "address": offer.address} for offer in self.other_versions],
            "looked_at": [
                {
                    "address": attempt.address,
                    "reason": attempt.reason,
                    **({"sha256": attempt.sha256} if isinstance(attempt, WrongBytes) and attempt.sha256 else {}),
                }
                for attempt in self.attempts
            ],
        }


class _NotHadAll(SlipwayError):
    """Base of the two errors below: keeps the findings for `--json` and for callers that tell rot from breakage."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        count = len(self.findings)
        super().__init__(
            f"{count} locked {'artifact' if count == 1 else 'artifacts'} can't be had",
            remedy="\n    ".join(dict.fromkeys(finding.remedy for finding in self.findings)),
        )

    def __str__(self) -> str:
        shown = "\n".join(f"  {line}" for finding in self.findings for line in str(finding).splitlines())
        return f"{self.what}\n{shown}\n  what to do: {self.remedy}"

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "findings": [finding.as_json() for finding in self.findings]}


class ArtifactsWrong(_NotHadAll, WrongArtifact):
    """Some artifacts are gone or other ones than the lock says (exit 4)."""


class ArtifactsUnreachable(_NotHadAll, MissingError):
    """No artifact is known to be gone or wrong, but some could not be asked for (exit 3)."""


def as_error(findings: Sequence[Finding]) -> SlipwayError:
    """The one error for all findings."""
    kinds = {finding.kind for finding in findings}
    return ArtifactsUnreachable(findings) if kinds == {"unreachable"} else ArtifactsWrong(findings)
