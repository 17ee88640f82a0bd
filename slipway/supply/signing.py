"""Signs and checks bytes with ECDSA over SHA-256, as cosign does.

A key is a PEM file of openssl's, an encrypted one of `cosign generate-key-pair` (its password in COSIGN_PASSWORD), or a
KMS URI of cosign's (`awskms:///alias/NAME`). openssl does what a plain file needs; cosign does the rest, and only then
has to be installed. Nothing is written to a transparency log. Private keys are never read by this program itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import MissingError, UsageError
from slipway.host import process

ENVIRONMENT = ("COSIGN_*", "AWS_*", "GOOGLE_*", "AZURE_*", "VAULT_*")
KMS = ("awskms://", "gcpkms://", "azurekms://", "hashivault://", "k8s://", "pkcs11:")
REMEDY = "install cosign (Debian 13: apt-get install cosign), or sign with a plain PEM key"


@dataclass(frozen=True)
class Key:
    """A private key by what names it. public: its public half as PEM."""

    name: str
    public: bytes
    tool: str

    @property
    def id(self) -> str:
        """The sha256 of the public key: tells keys apart."""
        return f"sha256:{hashlib.sha256(self.public).hexdigest()}"

    def sign(self, data: bytes) -> str:
        """The signature of `data`, base64 of DER. Raises MissingError when tool or password are missing."""
        with tempfile.TemporaryDirectory(prefix="slipway-sign-") as folder:
            payload, out = Path(folder) / "payload", Path(folder) / "signature"
            payload.write_bytes(data)
            if self.tool == "openssl":
                _run(["openssl", "dgst", "-sha256", "-sign", self.name, "-out", out, payload], self.name)
                return base64.b64encode(out.read_bytes()).decode()
            _run(
                ["cosign", "sign-blob", "--yes", *_no_log(), "--key", self.name, "--output-signature", out, payload],
                self.name,
            )
            return "".join(out.read_text().split())


def open_key(name: str) -> Key:
    """Look at a private key. Raises UsageError for what is none."""
    if name.startswith(KMS):
        return Key(name, _run(["cosign", "public-key", "--key", name], name).encode(), "cosign")
    path = Path(name)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the key can't be read: {error}", where=name, remedy="name a PEM file or a KMS URI") from None
    if "ENCRYPTED SIGSTORE PRIVATE KEY" in text or "ENCRYPTED COSIGN PRIVATE KEY" in text:
        return Key(name, _run(["cosign", "public-key", "--key", name], name).encode(), "cosign")
    if "PRIVATE KEY" not in text:
        raise UsageError(
            "this is no private key", where=name, remedy="sign with the private key, verify with the other"
        )
    return Key(name, _run(["openssl", "pkey", "-in", name, "-pubout"], name).encode(), "openssl")


def open_public(name: str) -> bytes:
    """A public key as PEM, from a file or a KMS URI."""
    if name.startswith(KMS):
        return _run(["cosign", "public-key", "--key", name], name).encode()
    try:
        content = Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"the public key can't be read: {error.strerror}", where=name) from None
    if b"PUBLIC KEY" not in content or b"PRIVATE" in content:
        raise UsageError(
            "this is no public key", where=name, remedy="openssl pkey -in KEY -pubout, or cosign public-key"
        )
    return content


def is_signed(data: bytes, signature: str, public: bytes) -> bool:
    """Whether `signature` (base64) is the public key's owner's over `data`."""
    try:
        der = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return False
    with tempfile.TemporaryDirectory(prefix="slipway-verify-") as folder:
        payload, sig, key = (Path(folder) / name for name in ("payload", "signature", "key"))
        for path, content in ((payload, data), (sig, der), (key, public)):
            path.write_bytes(content)
        words = ["openssl", "dgst", "-sha256", "-verify", str(key), "-signature", str(sig), str(payload)]
        return process.run(words, check=False, remedy="apt-get install openssl").code == 0


def _no_log() -> list[str]:
    """Options that keep cosign from the public transparency log; version 3 has more to switch off, and Debian's build
    of it does not know its own number."""
    said = process.run(["cosign", "sign-blob", "--help"], check=False)
    newer = "--use-signing-config" in said.out + said.err
    return ["--tlog-upload=false", *(["--new-bundle-format=false", "--use-signing-config=false"] if newer else [])]


def _run(words: list[str | Path], where: str) -> str:
    return process.run(
        words, pass_names=ENVIRONMENT, error=MissingError, timeout=120, remedy=f"see to the key {where}; or {REMEDY}"
    ).out
