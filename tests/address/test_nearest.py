import pytest

from hookline.address.nearest import nearest

NAMES = {
    "letters changed places": ("blocks.1.rleu", ["blocks.0.conv", "blocks.1.relu", "stem"], "blocks.1.relu"),
    "a prefix too many": ("model.layers.3.mlp", ["layers.3.mlp", "layers.3.norm", "head"], "layers.3.mlp"),
    "the end is right": ("encoder.attn", ["encoder.mlp", "decoder.attn", "decoder.mlp"], "decoder.attn"),
    "a star for a name": ("layers.*.upp", ["layers.0.mlp", "layers.0.mlp.up"], "layers.0.mlp.up"),
    "the end is nearly right": ("x.query", ["x.abcde", "block.querry"], "block.querry"),
}


@pytest.mark.parametrize(("name", "names", "expected"), NAMES.values(), ids=NAMES.keys())
def test_what_was_meant_comes_first(name: str, names: list[str], expected: str) -> None:
    assert nearest(name, names)[0] == expected


def test_no_more_than_asked_for_are_named_and_each_once() -> None:
    assert sorted(nearest("a", ["a1", "a1", "a2", "b"], 2)) == ["a1", "a2"]


def test_among_very_many_the_likest_is_found() -> None:
    names = [f"layers.{layer}.{name}" for layer in range(2000) for name in ("query", "key", "value")]
    assert nearest("layers.1234.qeury", names)[0] == "layers.1234.query"
    assert nearest("layer.1999.key", names)[0] == "layers.1999.key"
