"""The options of a layer cache in a registry, and who may write to it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from slipway import lock as locks
from slipway.errors import UsageError
from slipway.layers import records
from slipway.layers.remote import RemoteCache
from slipway.pins.model import Selection
from slipway.progress import Progress
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http


def add_layer_cache(parser: argparse.ArgumentParser) -> None:
    """None is used unless it is named here: a release is built from its lock."""
    parser.add_argument(
        "--layer-cache",
        metavar="REF",
        help="take finished layers from this repository, as far as locks/layers/ binds them to their keys",
    )
    parser.add_argument(
        "--trust-cache", action="store_true", help="take what no committed list knows, too: who writes there decides"
    )
    parser.add_argument("--push-layer-cache", action="store_true", help="push finished layers to --layer-cache")
    parser.add_argument(
        "--record-layers", action="store_true", help="write the list in locks/layers/ that binds keys to bytes"
    )


def remote_cache(
    args: argparse.Namespace, selection: Selection, progress: Progress, folder: Path = locks.FOLDER
) -> RemoteCache | None:
    """What the options mean; folder: of locks and lists.

    Raises UsageError where they don't go together, or a pull request's build would write."""
    if not args.layer_cache:
        if args.trust_cache or args.push_layer_cache:
            raise UsageError("--trust-cache and --push-layer-cache need --layer-cache REF")
        return None
    if args.push_layer_cache and (why := proposed(os.environ)):
        raise UsageError(
            "this build may not write to the layer cache",
            why=f"it builds a change that nobody has accepted yet ({why}); what it writes would reach accepted builds",
            remedy="leave out --push-layer-cache",
        )
    if args.record_layers and args.trust_cache:
        raise UsageError("--record-layers records what was made here; --trust-cache takes what others made")
    reference = parse_reference(args.layer_cache)
    repository = Repository(reference, Http(notify=progress.warn))
    return RemoteCache(repository, records.read(records.path(folder, selection.label)), args.trust_cache)


def proposed(environ: Mapping[str, str]) -> str:
    """What of the environment says that this is a pull request's build; "" for none. CodeBuild, GitHub, GitLab."""
    starts = {
        "CODEBUILD_WEBHOOK_EVENT": "PULL_REQUEST",
        "CODEBUILD_WEBHOOK_TRIGGER": "pr/",
        "GITHUB_EVENT_NAME": "pull_request",
        "CI_MERGE_REQUEST_ID": "",
    }
    return next((name for name, start in starts.items() if environ.get(name) and environ[name].startswith(start)), "")
