"""Whom we trust: the system's certificate authorities and every configured one."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

from slipway.errors import MissingError
from slipway.sources.settings import HttpSettings

CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")


def tls_context(settings: HttpSettings, environ: Mapping[str, str], *, unchecked: bool = False) -> ssl.SSLContext:
    """The system's authorities plus every configured one; files that are not there are passed over."""
    context = ssl.create_default_context()
    named = [Path(value) for variable in CA_VARIABLES if (value := environ.get(variable))]
    for path in dict.fromkeys((*named, *settings.ca_files, SYSTEM_CA)):
        with _readable(path, "certificates of authorities"):
            if path.is_dir():
                context.load_verify_locations(capath=str(path))
            elif path.is_file():
                context.load_verify_locations(cafile=str(path))
    if settings.client_cert is not None:
        with _readable(settings.client_cert, "a client certificate"):
            context.load_cert_chain(settings.client_cert)
    if unchecked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def _readable(path: Path, holds: str) -> Iterator[None]:
    """Raise MissingError for a configured file of certificates that can't be used."""
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise MissingError(
            f"{path} can't be read as {holds}: {error.strerror or error}",
            where=path,
            remedy=f"see to the file, or to what names it ({', '.join(CA_VARIABLES)}, pip's or apt's configuration)",
        ) from error
