"""Plans: what is a hit, what has to be made, and that the reason given is the reason."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slipway.layers.cache import LayerCache
from slipway.layers.entry import file_entry
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.plan import LayerRecipe, _flat, make_plan, remember


def recipe(name: str, **inputs: object) -> LayerRecipe:
    key = layer_key("files", inputs)
    return LayerRecipe(
        name, "files", key, inputs, (), lambda context: context.cache.build(key, lambda out: write_tar([], out))
    )


def make(cache: LayerCache, made: LayerRecipe) -> None:
    cache.build(made.key, lambda out: write_tar([file_entry("x", b"x")], out))


def why(cache: LayerCache, wanted: LayerRecipe) -> str:
    (layer,) = make_plan("image", [wanted], cache).layers
    return layer.why


def test_first_time(tmp_path: Path) -> None:
    assert why(LayerCache(tmp_path), recipe("a", one="1")) == "never made on this machine"


def test_a_hit_is_what_the_cache_holds(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    make(cache, recipe("a", one="1"))
    plan = make_plan("image", [recipe("a", one="1"), recipe("b", one="2")], cache)
    assert [layer.cached is not None for layer in plan.layers] == [True, False]
    assert [layer.recipe.name for layer in plan.misses] == ["b"]


def test_what_changed_is_named(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    before = recipe("a", wheels=[{"name": "ray", "sha256": "1"}, {"name": "six", "sha256": "2"}], venv="v")
    remember(make_plan("image", [before], cache), cache)
    after = recipe("a", wheels=[{"name": "ray", "sha256": "9"}, {"name": "new", "sha256": "3"}], venv="v")
    reason = why(cache, after)
    assert "wheels ray.sha256 changed" in reason and "wheels new.name is new" in reason and "venv" not in reason


def test_nothing_changed_but_the_layer_is_gone(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    remember(make_plan("image", [recipe("a", one="1")], cache), cache)
    assert why(cache, recipe("a", one="1")) == "no longer in the cache"


def test_a_damaged_record_of_the_last_plan_is_no_error(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    remember(make_plan("image", [recipe("a", one="1")], cache), cache)
    (tmp_path / "plans/image.json").write_text("{")
    assert why(cache, recipe("a", one="2")) == "never made on this machine"


def test_planning_writes_nothing(tmp_path: Path) -> None:
    make_plan("image", [recipe("a", one="1")], LayerCache(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


VALUES = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_equal_inputs_flatten_equally(value: object) -> None:
    assert _flat(value) == _flat(value)
    assert all(isinstance(key, str) and isinstance(text, str) for key, text in _flat(value).items())
