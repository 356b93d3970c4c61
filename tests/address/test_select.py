import dataclasses
import re
from collections.abc import Sequence

import pytest
from torch import nn

import hookline
from hookline.address import Address
from hookline.errors import AddressError, NoMatchError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Linear(4, 4)
        self.relu = nn.ReLU()

    def forward(self, x, mask=None):
        return self.relu(self.conv(x))

    def encode(self, tokens):
        return tokens


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(4, 2)
        self.tied = self.stem

    def forward(self, *args, **kwargs):
        return args


@pytest.fixture
def model() -> Model:
    return Model()


WAYS = {
    "a path": ("head", ["head"]),
    "the model": (".", ["."]),
    "a glob": ("blocks.*.conv", ["blocks.0.conv", "blocks.1.conv", "blocks.2.conv"]),
    "a glob with a set": ("blocks.[02].relu", ["blocks.0.relu", "blocks.2.relu"]),
    "any depth": ("**.relu", ["blocks.0.relu", "blocks.1.relu", "blocks.2.relu"]),
    "a class": (nn.ReLU, ["blocks.0.relu", "blocks.1.relu", "blocks.2.relu"]),
    "a regex": (re.compile(r"blocks\.\d\.relu"), ["blocks.0.relu", "blocks.1.relu", "blocks.2.relu"]),
    "a predicate": (lambda path, module: path.endswith("1.conv"), ["blocks.1.conv"]),
    "a list": (["head", "stem"], ["stem", "head"]),
    "a nested list": (["head", ["head", nn.ReLU]], ["blocks.0.relu", "blocks.1.relu", "blocks.2.relu", "head"]),
    "an address": (Address("head", side="input"), ["head"]),
    "a tuple": (("head", "stem"), ["stem", "head"]),
    "a set": ({"head", "stem"}, ["stem", "head"]),
    "keys of a dict": ({"head": 1, "stem": 2}.keys(), ["stem", "head"]),
}


@pytest.mark.parametrize(("what", "paths"), WAYS.values(), ids=WAYS.keys())
def test_every_way_to_say_where_selects_in_the_order_of_registration(model: Model, what, paths: list[str]) -> None:
    assert list(hookline.select(model, what).paths) == paths


def test_what_an_iterator_yields_is_selected(model: Model) -> None:
    assert hookline.select(model, (name for name in ["head", "stem"])).paths == ("stem", "head")


def test_a_module_of_the_model_selects_itself(model: Model) -> None:
    assert hookline.select(model, model.blocks[1].conv).paths == ("blocks.1.conv",)


def test_a_selection_selects_itself(model: Model) -> None:
    selection = hookline.select(model, "**.conv:input.0")
    assert [str(target) for target in hookline.select(model, selection)] == [str(target) for target in selection]


def test_a_selection_from_another_model_is_no_match(model: Model) -> None:
    with pytest.raises(NoMatchError, match="the Linear is not a module of the model"):
        hookline.select(model, hookline.select(Model(), "head"))


def test_an_address_that_was_put_together_wrongly_is_an_address_error(model: Model) -> None:
    with pytest.raises(AddressError, match="cannot read the address at column 3"):
        hookline.select(model, Address("a..b"))


def test_a_tied_module_answers_to_all_its_paths_and_is_selected_once(model: Model) -> None:
    """E8"""
    first, second = hookline.select(model, "stem"), hookline.select(model, "tied")
    assert first[0].paths == second[0].paths == ("stem", "tied")
    assert first[0].path == second[0].path == "stem"
    assert len(hookline.select(model, ["stem", "tied"])) == 1
    assert "also tied" in str(first)


def test_the_same_module_with_two_sides_is_two_places(model: Model) -> None:
    assert [str(each) for each in hookline.select(model, ["head:input", "head"])] == ["head:input", "head"]


def test_a_target_carries_the_address_of_its_own_place(model: Model) -> None:
    assert [str(each) for each in hookline.select(model, "blocks.[01]:input.mask")] == [
        "blocks.0:input.mask",
        "blocks.1:input.mask",
    ]


NO_MATCH = {
    "a path": ("blocks.0.rleu", "'blocks.0.relu'"),
    "the second of a list": (["head", "blocks.7.conv", "stem"], "'blocks.0.conv'"),
    "a glob": ("blokcs.*.conv", r"'blocks.\d.conv'"),
    "a class": (nn.Conv2d, "has no Conv2d; it has: Model, ModuleList, Block, Linear, ReLU"),
    "a regex": (re.compile("blocks.9"), r"regex 'blocks.9'; the nearest: 'blocks.\d"),
    "a predicate": (lambda path, module: False, "predicate .* is true of no module"),
    "a stranger": (nn.Linear(1, 1), "the Linear is not a module of the model"),
    "a class among many": (nn.GRU, "has no GRU; it has: .* and 2 others"),
    "a method of several": ("**.encdoe()", r"none of the 13 modules at '\*\*' has a method 'encdoe'; .*'encode'"),
    "a child as a method": ("blocks.0.conv()", "'conv' of Block at 'blocks.0' is a module: write 'blocks.0.conv'"),
    "a child of the model as a method": ("head()", "'head' of Model at '.' is a module: write 'head'"),
    "an attribute as a method": ("blocks.0.call_super_init()", "Block at 'blocks.0' has no method 'call_super_init'"),
    "a method": ("blocks.0.encdoe()", "Block at 'blocks.0' has no method 'encdoe'; the nearest: 'encode'"),
    "an argument": ("blocks.0:input.msk", r"Block.forward\(\) has no argument 'msk'; it has: x, mask"),
    "a method's argument": ("blocks.0.encode():input.mask", r"Block.encode\(\) has no argument 'mask'; it has: tokens"),
}


@pytest.mark.parametrize(("what", "message"), NO_MATCH.values(), ids=NO_MATCH.keys())
def test_no_match_names_what_is_near(model: Model, what, message: str) -> None:
    """E3"""
    if what is nn.GRU:
        model.more = nn.ModuleList([nn.Tanh(), nn.GELU(), nn.Sigmoid(), nn.Identity(), nn.Dropout()])
    with pytest.raises(NoMatchError, match=message):
        hookline.select(model, what)


def test_the_three_nearest_paths_are_named_the_likest_first(model: Model) -> None:
    with pytest.raises(NoMatchError, match=r"the nearest: 'blocks.1.relu', 'blocks.[02].relu', 'blocks.[02].relu'"):
        hookline.select(model, "blocks.1.rellu")


def test_a_glob_keeps_only_modules_that_have_the_method_or_argument(model: Model) -> None:
    assert hookline.select(model, "**.encode()").paths == ("blocks.0", "blocks.1", "blocks.2")
    assert hookline.select(model, "**:input.mask").paths == (".", "blocks.0", "blocks.1", "blocks.2")


@pytest.mark.parametrize(
    "what",
    [None, 3, [], set(), ["head", []], 2.5, ["head", None], b"head", re.compile(b"head"), {"head": 1}],
    ids=repr,
)
def test_what_is_no_way_to_say_where_is_an_address_error(model: Model, what) -> None:
    with pytest.raises(AddressError, match="expected"):
        hookline.select(model, what)


def test_names_with_special_characters_are_written_in_brackets(model: Model) -> None:
    model.add_module("odd:name [1]", nn.ReLU())
    selected = hookline.select(model, model.get_submodule("odd:name [1]"))
    assert str(selected[0]) == "odd[:]name[ ][[]1[]]"
    assert hookline.select(model, str(selected[0])).paths == ("odd:name [1]",)


def test_an_argument_by_position_and_of_a_function_is_not_looked_up(model: Model) -> None:
    assert [str(each) for each in hookline.select(model, ["head:input.5", "head/linear:input.weight"])] == [
        "head:input.5",
        "head/linear:input.weight",
    ]


def test_any_argument_can_be_named_where_the_signature_has_kwargs(model: Model) -> None:
    assert hookline.select(model, ".:input.anything").paths == (".",)
    assert hookline.select(model, ".:input.args").paths == (".",)


def test_a_selection_is_a_sequence_that_prints(model: Model) -> None:
    selection = hookline.select(model, "**.conv")
    assert len(selection) == 3
    assert selection[0] in selection
    assert isinstance(selection, Sequence)
    assert selection[1:].paths == ("blocks.1.conv", "blocks.2.conv")
    assert str(selection).splitlines()[0] == "blocks.0.conv  Linear"
    assert repr(hookline.select(model, "**")) == "<Selection of 13: ., stem, blocks, blocks.0, and 9 more>"


def test_a_target_cannot_be_changed(model: Model) -> None:
    target = hookline.select(model, "head")[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.path = "stem"
    assert not hasattr(target, "__dict__")
