"""Repositories of Amazon ECR: who we are to them, and that they are there with the settings a release needs.

Credentials are boto3's: the project's role in CodeBuild, OIDC in GitHub Actions. None is read or kept here.
API: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from slipway.errors import MissingError, PushFailed
from slipway.progress import Progress
from slipway.push.limits import ECR, kind_of
from slipway.registry.login import Login
from slipway.registry.reference import Reference

EARLY = 900.0
"""Seconds before its end at which a login (12 h) is renewed."""

PUBLIC_REGION = "us-east-1"
"""The only region where ECR Public's API is."""

MOVING = ("*-cuda", "*-cuda-*", "*-cpu", "*-cpu-arm64", "sha256-*")
"""Tags that an otherwise immutable repository lets move (at most five patterns): RELEASE-VARIANT, and the lists of what
is attached to an image. No immutable tag of slipway.push.tags matches one (a test says so)."""

UNTAGGED_DAYS = 14

LIFECYCLE = {
    "rules": [
        {
            "rulePriority": 1,
            "description": "what an interrupted push or a moved tag left",
            "selection": {
                "tagStatus": "untagged",
                "countType": "sinceImagePushed",
                "countUnit": "days",
                "countNumber": UNTAGGED_DAYS,
            },
            "action": {"type": "expire"},
        }
    ]
}
"""Tagged images stay for ever. Attestations are referrers of a tagged image and are kept with it by ECR; those with a
tag of their own (`sha256-…`) are tagged."""


def prepare_ecr(where: Reference, progress: Progress, client: Any | None = None) -> Callable[[], Login | None]:
    """See that the repository is there, and give what logs in to it, renewed before it ends.

    Raises MissingError without boto3 or credentials, PushFailed when AWS says no."""
    public = kind_of(where.host) == "ecr-public"
    client = client or _client(where.host, public=public)
    with _aws_errors(where):
        if _ensure(client, _name(where, public=public), public=public):
            progress.warn(f"made the repository {where.host}/{where.name}")
    return Token(client, where, public=public)


class Token:
    """A login that renews itself. Threads share it."""

    def __init__(self, client: Any, where: Reference, *, public: bool, now: Callable[[], float] = time.time) -> None:
        self._client, self._where, self._public, self._now = client, where, public, now
        self._lock = threading.Lock()
        self._login: Login | None = None
        self._until = 0.0

    def __call__(self) -> Login | None:
        """The login, a new one when the last one is about to end."""
        with self._lock:
            if self._login is None or self._now() >= self._until - EARLY:
                with _aws_errors(self._where):
                    self._login, self._until = self._ask()
            return self._login

    def _ask(self) -> tuple[Login, float]:
        answer = self._client.get_authorization_token()
        data = answer["authorizationData"]
        entry = data if self._public else data[0]
        user, _, password = base64.b64decode(entry["authorizationToken"]).decode().partition(":")
        return Login(user, password), entry["expiresAt"].timestamp()


def _client(host: str, *, public: bool) -> Any:
    try:
        import boto3
    except ImportError:
        raise MissingError(
            "pushing to ECR takes boto3, which is not installed",
            where=host,
            why="it logs in, makes the repository and sets its rules",
            remedy=".venv/bin/python -m pip install --require-hashes -r requirements/ecr.txt",
        ) from None
    if public:
        return boto3.client("ecr-public", region_name=PUBLIC_REGION)
    match = ECR.fullmatch(host.partition(":")[0])
    return boto3.client("ecr", region_name=match[2] if match else None)


def _name(where: Reference, *, public: bool) -> str:
    """The repository's name as the API has it: ECR Public's lacks the registry's alias in front."""
    return where.name.partition("/")[2] if public and "/" in where.name else where.name


def _ensure(client: Any, name: str, *, public: bool) -> bool:
    """Make the repository if it is not there: scan on push, immutable tags but for the moving ones, lifecycle as in
    LIFECYCLE. One that is there stays as its owner set it. True when it was made."""
    try:
        client.describe_repositories(repositoryNames=[name])
        return False
    except client.exceptions.RepositoryNotFoundException:
        pass
    try:
        if public:
            client.create_repository(repositoryName=name)
            return True
        _create(client, name)
    except client.exceptions.RepositoryAlreadyExistsException:
        return False  # somebody else was faster
    client.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=json.dumps(LIFECYCLE))
    return True


def _create(client: Any, name: str) -> None:
    """Immutable with exclusions where this boto3 knows them; else mutable: immutability is then this client's own."""
    arguments: dict[str, Any] = {
        "repositoryName": name,
        "imageScanningConfiguration": {"scanOnPush": True},
    }
    members = client.meta.service_model.operation_model("CreateRepository").input_shape.members
    if "imageTagMutabilityExclusionFilters" in members:
        patterns = [{"filterType": "WILDCARD", "filter": pattern} for pattern in MOVING]
        exclusions = {
            "imageTagMutability": "IMMUTABLE_WITH_EXCLUSION",
            "imageTagMutabilityExclusionFilters": patterns,
        }
        client.create_repository(**arguments, **exclusions)
    else:
        client.create_repository(**arguments, imageTagMutability="MUTABLE")


@contextlib.contextmanager
def _aws_errors(where: Reference) -> Iterator[None]:
    """AWS's errors as ours: no credentials is exit 3, a no is exit 5."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if kind in ("NoCredentialsError", "PartialCredentialsError", "NoRegionError", "TokenRetrievalError"):
            raise MissingError(
                f"AWS does not know who we are: {error}",
                where=where,
                remedy="run in the project's role, or set AWS_PROFILE; no key belongs into a file of this project",
            ) from error
        if kind in ("ClientError", "EndpointConnectionError", "ConnectTimeoutError") or hasattr(error, "response"):
            raise PushFailed(
                f"AWS refused: {error}",
                where=where,
                why="nothing was sent",
                remedy="see the role's policy (docs/push.md)",
            ) from error
        raise
