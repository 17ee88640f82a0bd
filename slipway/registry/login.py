"""Who we are to a registry: what `docker login` (or podman) stored on this machine, credential helpers included.

Format: https://github.com/docker/cli/blob/master/docs/reference/commandline/login.md (config.json).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import MissingError
from slipway.host import process

HUB_KEY = "https://index.docker.io/v1/"
NO_USER = "<token>"
"""The user name with which a helper says that the secret is an identity token."""

HELPER_ENVIRONMENT = ("AWS_*", "GOOGLE_*", "CLOUDSDK_*", "AZURE_*", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME")


@dataclass(frozen=True)
class Login:
    """User and password, or an identity token that is exchanged for access tokens. repr hides the secrets."""

    user: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


def config_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where logins are stored, docker's file first."""
    yield Path(environ.get("DOCKER_CONFIG") or Path("~/.docker").expanduser()) / "config.json"
    if auth_file := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(auth_file)
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"


def find_login(host: str, environ: Mapping[str, str] | None = None) -> Login | None:
    """The login for a registry; None where nobody logged in. Raises MissingError when a credential helper fails."""
    environ = os.environ if environ is None else environ
    for path in config_files(environ):
        try:
            document = json.loads(path.read_text("utf-8"))
        except OSError:
            continue
        except ValueError as error:
            raise MissingError(f"{path} is not JSON: {error}", where=path, remedy="log in again") from None
        if isinstance(document, dict) and (login := _from_config(document, host)) is not None:
            return login
    return None


def _keys(host: str) -> list[str]:
    own = [HUB_KEY] if host in ("docker.io", "index.docker.io", "registry-1.docker.io") else []
    return [
        *own,
        host,
        f"https://{host}",
        f"https://{host}/",
        f"https://{host}/v1/",
        f"https://{host}/v2/",
        f"http://{host}",
    ]


def _from_config(document: Mapping[str, Any], host: str) -> Login | None:
    helpers = document.get("credHelpers")
    helpers = helpers if isinstance(helpers, dict) else {}
    for key in _keys(host):
        helper = helpers.get(key)
        if isinstance(helper, str) and helper:
            return _ask_helper(helper, key)
    auths = document.get("auths")
    auths = auths if isinstance(auths, dict) else {}
    for key in _keys(host):
        entry = auths.get(key)
        if isinstance(entry, dict) and (login := _from_entry(entry)) is not None:
            return login
    store = document.get("credsStore")
    if isinstance(store, str) and store:
        for key in _keys(host):
            if key in auths and (login := _ask_helper(store, key)) is not None:
                return login
    return None


def _from_entry(entry: Mapping[str, Any]) -> Login | None:
    token = entry.get("identitytoken")
    user, password = entry.get("username"), entry.get("password")
    if isinstance(auth := entry.get("auth"), str) and auth:
        try:
            user, _, password = base64.b64decode(auth).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
    if isinstance(token, str) and token:
        return Login(str(user or ""), "", token)
    return Login(str(user), str(password or "").rstrip("\0")) if user else None


def _ask_helper(helper: str, server: str) -> Login | None:
    """`docker-credential-HELPER get`; None where it has no login for this server."""
    program = f"docker-credential-{helper}"
    result = process.run([program, "get"], data=server.encode(), pass_names=HELPER_ENVIRONMENT, check=False, timeout=60)
    if result.code != 0:
        if "credentials not found" in (result.out + result.err):
            return None
        raise MissingError(process.failure([program], result), where=server, remedy="log in to the registry again")
    try:
        answer = json.loads(result.out)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError):
        raise MissingError(f"{program} gave no usable answer", where=server) from None
    return Login("", "", secret) if user == NO_USER else Login(user, secret)
