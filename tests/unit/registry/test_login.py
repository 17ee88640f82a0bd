from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from slipway.errors import MissingError
from slipway.registry.login import Login, find_login

HOST = "registry.example.com"


def write(config: Path, document: object) -> dict[str, str]:
    (config / "config.json").write_text(json.dumps(document))
    return {"DOCKER_CONFIG": str(config)}


@pytest.mark.parametrize("key", [HOST, f"https://{HOST}", f"https://{HOST}/v1/"])
def test_docker_login(config: Path, key: str) -> None:
    auth = base64.b64encode(b"me:se:cret").decode()
    assert find_login(HOST, write(config, {"auths": {key: {"auth": auth}}})) == Login("me", "se:cret")


def test_identity_tokens(config: Path) -> None:
    auth = base64.b64encode(b"me:").decode()
    environ = write(config, {"auths": {HOST: {"auth": auth, "identitytoken": "token"}}})
    assert find_login(HOST, environ) == Login("me", "", "token")


def test_nobody_logged_in(config: Path) -> None:
    assert find_login(HOST, {"DOCKER_CONFIG": str(config)}) is None
    assert find_login(HOST, write(config, {"auths": {"other.example.com": {"auth": "bWU6c2VjcmV0"}}})) is None
    assert find_login(HOST, write(config, {"auths": {HOST: {}}, "credsStore": ""})) is None


def test_podmans_file(tmp_path: Path) -> None:
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers" / "auth.json").write_text(json.dumps({"auths": {HOST: {"auth": "bWU6c2VjcmV0"}}}))
    environ = {"DOCKER_CONFIG": "/nowhere", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert find_login(HOST, environ) == Login("me", "secret")


def test_a_broken_file(config: Path) -> None:
    (config / "config.json").write_text("{")
    with pytest.raises(MissingError, match="not JSON"):
        find_login(HOST, {"DOCKER_CONFIG": str(config)})


HELPER = """#!/bin/sh
read -r server
case "$server" in
    registry.example.com) echo '{"Username": "me", "Secret": "from helper"}';;
    token.example.com) echo '{"Username": "<token>", "Secret": "t"}';;
    *) echo "credentials not found in native keychain"; exit 1;;
esac
"""


@pytest.mark.parametrize("how", ["credHelpers", "credsStore"])
def test_credential_helpers(config: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    helper = config / "docker-credential-fake"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{config}:/usr/bin:/bin")
    hosts = [HOST, "token.example.com", "unknown.example.com"]
    document: dict[str, object] = {"credHelpers": dict.fromkeys(hosts, "fake")}
    if how == "credsStore":
        document = {"auths": {host: {} for host in hosts}, "credsStore": "fake"}
    environ = write(config, document)
    assert [find_login(host, environ) for host in hosts] == [Login("me", "from helper"), Login("", "", "t"), None]


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(Login("me", "secret", "secret"))
