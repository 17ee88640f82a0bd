"""ECR's API as moto plays it: login and its renewal, repositories as code, and errors as ours."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.ecr.registry import LIFECYCLE, MOVING, Token, prepare_ecr
from slipway.errors import MissingError, PushFailed
from slipway.progress import Progress
from slipway.push.request import prepare
from slipway.registry.reference import parse_reference

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")

WHERE = parse_reference("123456789012.dkr.ecr.us-east-1.amazonaws.com/team/slipway")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        yield boto3.client("ecr", region_name="us-east-1")


def test_the_repository_is_made_once_with_its_rules(client: Any) -> None:
    prepare_ecr(WHERE, Progress())
    (made,) = client.describe_repositories(repositoryNames=["team/slipway"])["repositories"]
    assert made["imageScanningConfiguration"] == {"scanOnPush": True}
    assert made["imageTagMutability"].startswith("IMMUTABLE")
    rules = json.loads(client.get_lifecycle_policy(repositoryName="team/slipway")["lifecyclePolicyText"])
    assert rules == LIFECYCLE
    client.put_image_scanning_configuration(
        repositoryName="team/slipway", imageScanningConfiguration={"scanOnPush": False}
    )
    prepare_ecr(WHERE, Progress())
    (kept,) = client.describe_repositories(repositoryNames=["team/slipway"])["repositories"]
    assert kept["imageScanningConfiguration"] == {"scanOnPush": False}  # its owner's choice


def test_moving_tags_are_excluded_from_immutability() -> None:
    shape = boto3.client("ecr", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")  # noqa: S106
    members = shape.meta.service_model.operation_model("CreateRepository").input_shape.members
    limits = members["imageTagMutabilityExclusionFilters"].metadata
    assert limits["min"] <= len(MOVING) <= limits["max"]


def test_the_login_is_ecrs(client: Any) -> None:
    login = prepare_ecr(WHERE, Progress())()
    assert login is not None and login.user == "AWS" and login.password


class Clock:
    """A client that hands out a new password each time, good for twelve hours."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.asked = 0

    def get_authorization_token(self) -> dict[str, Any]:
        self.asked += 1
        entry = {
            "authorizationToken": base64.b64encode(f"AWS:password{self.asked}".encode()).decode(),
            "expiresAt": datetime.datetime.fromtimestamp(self.now + 43_200, datetime.UTC),
        }
        return {"authorizationData": entry if self.public else [entry]}

    public = False


@pytest.mark.parametrize("public", [False, True])
def test_a_login_is_renewed_before_it_ends(public: bool) -> None:
    clock = Clock()
    clock.public = public
    token = Token(clock, WHERE, public=public, now=lambda: clock.now)
    passwords = []
    for hours in (0, 1, 11, 0.8, 5):
        clock.now += hours * 3600
        login = token()
        assert login is not None
        passwords.append(login.password)
    assert passwords == ["password1", "password1", "password2", "password2", "password2"]
    assert clock.asked == 2


def test_who_has_no_credentials_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCredentialsError(Exception):
        pass

    class Refusing:
        class exceptions:  # noqa: N801
            class RepositoryNotFoundException(Exception):
                pass

        def describe_repositories(self, **_: object) -> None:
            raise NoCredentialsError("Unable to locate credentials")

    with pytest.raises(MissingError, match="who we are"):
        prepare_ecr(WHERE, Progress(), Refusing())


def test_a_no_of_aws_is_a_failed_push(client: Any) -> None:
    class Denied(Exception):
        response = {"Error": {"Code": "AccessDeniedException"}}

    class Refusing:
        exceptions = client.exceptions

        def describe_repositories(self, **_: object) -> None:
            raise Denied("not authorized to perform: ecr:DescribeRepositories")

    with pytest.raises(PushFailed, match="not authorized"):
        prepare_ecr(WHERE, Progress(), Refusing())


def test_a_push_to_ecrs_host_logs_in_with_ecrs_password(client: Any) -> None:
    repository = prepare(WHERE, Progress())()
    repository.access._challenge = ("basic", {})
    assert repository.access.headers("repository:x:push")["Authorization"].startswith("Basic QVdTO")  # AWS:
