"""Which layers an image has, in the order in which they are unpacked, and how each is made.

A function of pins, lock and checkout, but for one thing: which paths a wheel installs is read from the wheel, so
wheels that are not in the store yet leave their layers' keys open (`Recipes.missing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slipway.base import layers as base_layers
from slipway.base.layers import Base
from slipway.build import Context
from slipway.debian import layer as debian
from slipway.errors import WrongArtifact
from slipway.fabric import installer
from slipway.fabric import layer as fabric
from slipway.image import share
from slipway.layers import cuda_home, ldcache, wheels
from slipway.layers.app import app_wheel, as_wheel
from slipway.layers.bytecode import Bytecode, read_list
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.entry import Entry
from slipway.layers.files import fingerprint
from slipway.layers.image_python import python_debs
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.lock.alias import alias_wheel, locked_alias
from slipway.lock.model import Artifact, Lock, Wheel
from slipway.lock.tags import image_tags
from slipway.pins.model import Selection
from slipway.plan import LayerRecipe
from slipway.store import Store
from slipway.wheel.index import Indexes
from slipway.wheel.paths import Venv
from slipway.wheel.venv import venv_entries


@dataclass(frozen=True)
class Recipes:
    """All layers of one image.

    missing: wheels that have to be in the store before the keys of their layers are known
    made:    wheels that the driver makes itself, with their bytes
    indexes: where the indexes of wheels are kept
    notes:   lines for people
    """

    layers: tuple[LayerRecipe, ...]
    missing: tuple[Wheel, ...]
    made: Mapping[Wheel, bytes] = field(repr=False, default_factory=dict)
    notes: tuple[str, ...] = ()
    indexes: Indexes | None = None


def recipes(
    selection: Selection,
    lock: Lock,
    root: Path,
    store: Store,
    cache: LayerCache,
    sandbox: str = "strong",
    base: Base | None = None,
) -> Recipes:
    """The layers of the image that `lock` describes. root: the checkout; base: what stands in for the Debian layer.

    Raises UsageError for wheels that can't be installed together, WrongArtifact for an alias wheel that the lock
    knows with other bytes.
    """
    app_file, app_content = app_wheel(root / "serve_app")
    app = as_wheel(app_file, app_content)
    made = {**_aliases(selection, lock), app: app_content}
    python = base.facts.python if base else f"/usr/bin/python{selection.python}"
    venv = Venv(python=selection.python, base=python)
    skeleton = venv_entries(venv, base.facts.version if base else _python_version(lock, selection.python))
    options = wheels.Options(
        venv=venv,
        tags=frozenset(image_tags(selection.python, selection.glibc, selection.arch)),
        excuses=selection.excuses,
        contested=selection.contested,
        reserved={entry.path: entry.kind for entry in skeleton},
        pinned=frozenset(requirement.name for requirement in selection.wheels),
        alone=frozenset((app.name,)),
        bytecode=_bytecode(selection, lock, root),
    )
    planned = wheels.plan_wheels((*lock.wheels, app), options, store, cache, made)
    below = (
        *(base_layers.recipes(base) if base else (_debian(selection, lock),)),
        _fabric(selection, lock, sandbox),
    )
    layers = (
        *below,
        _plain("venv", skeleton),
        *(_wheels(group, options, planned.options.bytecode.debs) for group in planned.groups),
        *_cuda_home(planned),
        _plain("share", share.entries(root, lock)),
        _ldcache(below),
    )
    return Recipes(layers, planned.missing, made, planned.notes, Indexes(cache.root, venv, excuses=selection.excuses))


def _aliases(selection: Selection, lock: Lock) -> dict[Wheel, bytes]:
    """The alias wheels of the lock, made again and compared with it."""
    made = {}
    for alias in selection.aliases:
        wheel = locked_alias(alias)
        locked = next((other for other in lock.wheels if other.name == wheel.name), None)
        if locked is not None and locked.sha256 != wheel.sha256:
            raise WrongArtifact(
                f"the alias wheel {wheel.file} is not the locked one",
                where=f"locks/{selection.label}.toml",
                why=f"made now it hashes to {wheel.sha256}, the lock says {locked.sha256}",
                remedy="python3 build.py lock",
            )
        made[wheel] = alias_wheel(alias)
    return made


def _python_version(lock: Lock, python: str) -> str:
    """The full version of the image's Python, "3.11.2", from its package's version "3.11.2-6+deb12u6"."""
    version = next((deb.version for deb in lock.debs if deb.name == f"python{python}-minimal"), python)
    return version.partition("-")[0]


def _bytecode(selection: Selection, lock: Lock, root: Path) -> Bytecode:
    modules = read_list(root / "docker" / "bytecode" / f"{selection.release}-{selection.variant}.txt")
    return Bytecode(python_debs(lock.debs_for("image"), selection.python), modules)


def _debian(selection: Selection, lock: Lock) -> LayerRecipe:
    return LayerRecipe(
        debian.KIND,
        debian.KIND,
        debian.key(lock, selection),
        debian.inputs(lock, selection),
        lock.debs_for("image"),
        lambda context: debian.build(lock, selection, context),
    )


def _fabric(selection: Selection, lock: Lock, sandbox: str) -> LayerRecipe:
    if selection.fabric == "installer":
        return LayerRecipe(
            fabric.KIND,
            installer.KIND,
            installer.key(lock, selection),
            installer.inputs(lock, selection),
            lock.installers,
            lambda context: installer.build(lock, selection, context),
        )
    return LayerRecipe(
        fabric.KIND,
        fabric.KIND,
        fabric.key(lock, selection, sandbox),
        fabric.inputs(lock, selection, sandbox),
        (*lock.debs_for("build"), *lock.sources),
        lambda context: fabric.build(lock, selection, context),
    )


def _wheels(group: wheels.GroupPlan, options: wheels.Options, python: Sequence[Artifact]) -> LayerRecipe:
    def make(context: Context) -> CachedLayer:
        return wheels.submit_group(group, options, context.store, context.cache, context.pool).result()

    needs_python = python if any(group.modules.values()) else ()
    return LayerRecipe(group.name, wheels.KIND, group.key, group.inputs, (*group.group.wheels, *needs_python), make)


def _cuda_home(planned: wheels.WheelPlan) -> tuple[LayerRecipe, ...]:
    """What makes the wheels' CUDA found by those who compile for GPUs; nothing where there is none."""
    entries = cuda_home.entries(planned.paths)
    if not entries:
        return ()
    recipe = _plain(cuda_home.NAME, entries)
    return (recipe if not planned.missing else replace(recipe, inputs={**recipe.inputs, "provisional": True}),)


def _ldcache(below: Sequence[LayerRecipe]) -> LayerRecipe:
    """Over the layers that bring libraries to where ld.so looks; wheels bring theirs beside what loads them."""
    keys = [layer.key for layer in below]
    names = tuple(layer.name for layer in below)

    def make(context: Context) -> CachedLayer:
        return ldcache.build([context.done[name] for name in names], context)

    return LayerRecipe(ldcache.KIND, ldcache.KIND, ldcache.key(keys), ldcache.inputs(keys), (), make, names)


def _plain(name: str, entries: Iterable[Entry]) -> LayerRecipe:
    """A layer of a few small files."""
    ordered = tuple(entries)
    inputs = {"files": fingerprint(ordered)}
    key = layer_key("files", inputs)
    return LayerRecipe(
        name, "files", key, inputs, (), lambda context: context.cache.build(key, lambda out: write_tar(ordered, out))
    )
