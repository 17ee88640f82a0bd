"""Environment defaults that make Ray, vLLM and torch work for any user id, on a read-only root, offline.

KubeRay replaces an image's entrypoint by its own shell command, so nothing here may rely on the entrypoint: the
command line calls `prepare()` before Ray starts, and everything Ray starts inherits it.
"""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

FIXED = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",
    "RAY_DEDUP_LOGS_ALLOW_REGEX": r'"event": "request"',
}
"""No reports to anybody; RAY_ACCEL_...: Ray 2.60 warns on every start that this becomes the default.
..._FORCE_STOP_...: a replica that ends by itself may take as long as its requests do; one whose engine hangs must not.
..._DEDUP_...: requests' log lines are told one by one, however alike."""

FOLDERS = {
    "XDG_CACHE_HOME": "",
    "HF_HOME": "huggingface",
    "VLLM_CACHE_ROOT": "vllm",
    "VLLM_CONFIG_ROOT": "vllm-config",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "TRITON_CACHE_DIR": "triton",
    "NUMBA_CACHE_DIR": "numba",
    "MPLCONFIGDIR": "matplotlib",
}
"""Variable → folder under the cache. Each library has its own default below HOME, which may not be writable."""


def prepare(environ: MutableMapping[str, str] | None = None) -> Path:
    """Fills in what is missing, changes nothing that is set and usable; the cache folder."""
    environ = os.environ if environ is None else environ
    for name, value in FIXED.items():
        environ.setdefault(name, value)
    if environ.get("OTEL_EXPORTER_OTLP_PROTOCOL"):  # vLLM looks at the traces' own variable only
        environ.setdefault("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", environ["OTEL_EXPORTER_OTLP_PROTOCOL"])
    _name_the_user(environ)
    home_is_usable = _writable(environ.get("HOME", ""))
    cache = cache_folder(environ)
    if not home_is_usable:
        # Ray, git and pip want some HOME; below /tmp is where a read-only root leaves room.
        environ["HOME"] = str(cache / "home")
        (cache / "home").mkdir(parents=True, exist_ok=True)
    for name, folder in FOLDERS.items():
        if environ.get(name) and _writable(environ[name]):
            continue
        if name in environ or not home_is_usable or name == "TORCHINDUCTOR_CACHE_DIR":
            environ[name] = str(cache / folder) if folder else str(cache)
    return cache


def cache_folder(environ: MutableMapping[str, str]) -> Path:
    """Where things are kept between starts: $SERVE_APP_CACHE, $XDG_CACHE_HOME, ~/.cache, or a folder in /tmp."""
    candidates = [environ.get("SERVE_APP_CACHE", "")]
    if environ.get("XDG_CACHE_HOME"):
        candidates.append(f"{environ['XDG_CACHE_HOME']}/serve_app")
    if _writable(environ.get("HOME", "")):
        candidates.append(f"{environ['HOME']}/.cache/serve_app")
    candidates.append(f"{tempfile.gettempdir()}/serve_app-{os.getuid()}")
    for candidate in candidates:
        if _writable(candidate):
            return Path(candidate)
    return Path(tempfile.mkdtemp(prefix="serve_app-"))


def _name_the_user(environ: MutableMapping[str, str]) -> None:
    """getpass.getuser() and torch ask the password file, where an arbitrary uid does not stand."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid{os.getuid()}"
    for variable in ("USER", "LOGNAME"):
        if not environ.get(variable):
            environ[variable] = name


def _writable(folder: str) -> bool:
    """True when files can be made in the folder, which is created when its parent allows that."""
    if not folder or folder == "/" or not Path(folder).is_absolute():
        return False
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
