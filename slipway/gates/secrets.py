"""No private keys, no tokens, no stored passwords: in files, in the environment, in labels or in the history.

Contents are searched while a layer's index is made (slipway.inspect.content). Subject of a finding: the path, or
`config.Env.NAME`, `config.Labels.NAME`, `config.history`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect import content
from slipway.inspect.image import Image

NAME = "secrets"
PROVES = "no private keys, tokens or passwords in files, environment, labels or history"

_CREDENTIAL_FILE = re.compile(
    r"(.*/)?(\.netrc|\.pypirc|\.git-credentials|\.docker/config\.json|\.dockercfg)"
    r"|(root|home/[^/]+)/\.(aws|azure|config/gcloud|kube)/.+|etc/apt/auth\.conf(\.d/.+)?"
)
_URL_PASSWORD = re.compile(rb"[a-z+]+://[^/\s:@]+:[^/\s@]+@")
_SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)($|_)", re.I
)


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text. What was found is named, never shown."""
    del settings
    for node in image.tree.files():
        for mark in node.member.marks:
            if mark.startswith("secret: "):
                yield _finding(node.path, f"{image.owner(node)} has a file with a {mark[8:]}")
        if node.member.size and _CREDENTIAL_FILE.fullmatch(node.path):
            yield _finding(node.path, "it is a file that programs store credentials in")
    for path, text in image.texts().items():
        if not path.endswith(".pth") and _URL_PASSWORD.search(text):
            yield _finding(path, "it holds an address with a password in it")
    yield from _config(image)


def _config(image: Image) -> Iterator[Finding]:
    for where, values in (("Env", image.layout.env), ("Labels", image.layout.labels)):
        for name, value in values.items():
            found = content.secrets(value.encode())
            if found or _URL_PASSWORD.search(value.encode()) or (value and _SECRET_NAME.search(name)):
                yield _finding(f"config.{where}.{name}", f"it looks like a {found[0] if found else 'secret'}")
    for step in image.layout.config.get("history") or ():
        text = f"{step.get('created_by', '')} {step.get('comment', '')}".encode()
        if content.secrets(text) or _URL_PASSWORD.search(text):
            yield _finding("config.history", "a step of it holds what looks like a secret")


def _finding(subject: str, what: str) -> Finding:
    return Finding(
        subject,
        what,
        "everybody who pulls the image can read it, also out of lower layers",
        "take it out and revoke it; give secrets to containers at run time. For a test's throw-away key: an excuse",
    )
