import copy
import os
import types
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from transformers import BatchEncoding, DynamicCache
from transformers.modeling_outputs import BaseModelOutputWithPast

from hookline.address import children, leaves, map_leaves, read, rebuild, write
from hookline.errors import PartError


class Pair(NamedTuple):
    left: object
    right: object


@dataclass
class Record:
    first: object
    second: object = None
    count: int = field(default=3, init=False)


@dataclass(frozen=True)
class Frozen:
    first: object


@dataclass(frozen=True, slots=True)
class Slotted:
    first: object


@dataclass(repr=False)
class Unset:
    first: object
    later: object = field(init=False)


class Bag(list):
    pass


class Lonely(Pair):
    def __new__(cls, left):
        return super().__new__(cls, left, None)


class Wrapped(MutableMapping):
    """A mapping around a dict, which copy.copy would share between the copies."""

    def __init__(self, held) -> None:
        self.held = dict(held)

    def __getitem__(self, key):
        return self.held[key]

    def __setitem__(self, key, value) -> None:
        self.held[key] = value

    def __delitem__(self, key) -> None:
        del self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def __repr__(self) -> str:
        return repr(self.held)


class OneKey(Mapping):
    """A mapping that cannot be made from a dict."""

    def __init__(self, key, value) -> None:
        self.key, self.value = key, value

    def __getitem__(self, key):
        return self.value

    def __iter__(self):
        return iter([self.key])

    def __len__(self) -> int:
        return 1


class Copied(OneKey):
    """A mapping that says how it is copied."""

    def __copy__(self):
        return Copied(self.key, self.value)

    def __setitem__(self, key, value) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{self.key}: {self.value}"


class Marked(torch.Tensor):
    """A tensor with an attribute of its own."""

    mark = property(lambda self: 3)


class Box:
    """An object with all kinds of attributes."""

    __slots__ = ("empty", "held", "slot")
    constant = 3

    def __init__(self, slot) -> None:
        self.slot = slot
        self.held = slot

    @property
    def settable(self):
        return self.held

    @settable.setter
    def settable(self, value) -> None:
        self.held = value

    @property
    def fixed(self):
        return self.held

    @property
    def function(self):
        return print

    def method(self) -> None: ...

    def __repr__(self) -> str:
        return f"Box({self.slot}, {self.held})"


A, B = torch.ones(2), torch.zeros(3)
CONTAINERS = {
    "tuple": ((A, B), 1, B),
    "tuple from the end": ((A, B), -1, B),
    "list": ([A, B], 0, A),
    "named tuple by name": (Pair(A, B), "right", B),
    "named tuple by index": (Pair(A, B), 1, B),
    "return type": (torch.return_types.max((A, B)), 1, B),
    "return type by name": (torch.return_types.max((A, B)), "indices", B),
    "structure of which some have no name": (os.stat_result(range(10)), 1, 1),
    "named tuple with a constructor of its own": (Lonely(A), "left", A),
    "mapping around a dict": (Wrapped({"a": A, "b": B}), "a", A),
    "mapping that can be copied": (Copied("a", A), "a", A),
    "key that is equal to another": ({True: A, "b": B}, 1, B),
    "user dict": (UserDict(a=A, b=B), "a", A),
    "read-only mapping": (types.MappingProxyType({"a": A}), "a", A),
    "batch encoding": (BatchEncoding({"a": A}), "a", A),
    "mapping by index": ({"a": A, "b": B}, 1, B),
    "mapping from the end": ({"a": A, "b": B}, -1, B),
    "frozen dataclass with slots": (Slotted(B), "first", B),
    "dataclass of which a field is not set": (Unset(A), "first", A),
    "field that has no place in __init__": (Record(A), "count", 3),
    "slot": (Box(A), "slot", A),
    "property": (Box(A), "settable", A),
    "dict": ({"a": A, "b": B}, "b", B),
    "dict with integer keys": ({7: A, 1: B}, 1, B),
    "ordered dict": (OrderedDict(a=A, b=B), "a", A),
    "default dict": (defaultdict(list, a=A), "a", A),
    "dataclass": (Record(A, B), "second", B),
    "frozen dataclass": (Frozen(A), "first", A),
    "list subclass": (Bag([A, B]), 1, B),
    "model output by name": (BaseModelOutputWithPast(last_hidden_state=A, cache=B), "cache", B),
    "model output by index": (BaseModelOutputWithPast(last_hidden_state=A, cache=B), 1, B),
    "object with attributes": (types.SimpleNamespace(a=A), "a", A),
}


@pytest.mark.parametrize(("value", "key", "part"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_a_part_is_read_and_written_and_the_type_kept(value, key, part) -> None:
    """C5, G4"""
    before = repr(value)
    assert read(value, (key,)) is part
    new = torch.full((1,), 9.0)
    written = write(value, (key,), new)
    assert type(written) is type(value)
    assert read(written, (key,)) is new
    assert read(value, (key,)) is part
    assert [item for _, item in children(written) or []] == [
        new if item is part else item for _, item in children(value) or []
    ]
    assert repr(value) == before


def test_a_deep_part_is_written_without_touching_the_original_s_branches() -> None:
    value = {"a": [A, (A, Record(A, {"x": B}))], "b": [B]}
    part = ("a", 1, 1, "second", "x")
    written = write(value, part, A)
    assert read(written, part) is A
    assert read(value, part) is B
    assert written["b"] is value["b"]


def test_a_packed_sequence_has_its_data_as_a_part() -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(1)])
    doubled = map_leaves(
        lambda _, leaf: leaf * 2 if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf, packed
    )
    assert type(doubled) is type(packed)
    assert torch.equal(doubled.data, packed.data * 2)
    assert doubled.batch_sizes is packed.batch_sizes


WRONG = {
    "tuple": ((A, B, A), (3,), "3; the value there is a tuple of 3"),
    "deep": ({"a": (A,)}, ("a", 5), "5 at 'a'; the value there is a tuple of 1"),
    "mapping": ({"last_hidden_state": A, "pooler": B}, ("hidden",), "keys: last_hidden_state, pooler"),
    "empty mapping": ({}, ("x",), "keys: none"),
    "named tuple": (Pair(A, B), ("top",), "keys: left, right"),
    "dataclass": (Record(A), ("third",), "Record with keys: first, second, count"),
    "tensor": (torch.ones(2, 3), (0,), r"a Tensor of shape \(2, 3\), which has no parts"),
    "tensor's attribute": (A, ("shape",), "which has no parts"),
    "tensor's own attribute": (torch.ones(2).as_subclass(Marked), ("mark",), "which has no parts"),
    "number": (3, (0,), "of type int"),
    "object": (types.SimpleNamespace(a=1, _b=2), ("b",), r"of type SimpleNamespace with attributes: a\."),
    "return type": (torch.return_types.max((A, B)), ("value",), "max with keys: values, indices"),
    "beyond the end": ((A,), (-2,), "a tuple of 1"),
    "empty tuple": ((), (0,), "a tuple of 0"),
    "key of another type": ({"0": A}, ("1",), "keys: 0"),
    "empty slot": (Box(A), ("empty",), "of type Box"),
    "constant of the class": (Box(A), ("constant",), "of type Box"),
    "method": (Box(A), ("method",), "of type Box"),
    "property that is a function": (Box(A), ("function",), "of type Box"),
    "None": (None, ("a",), "of type NoneType"),
}


@pytest.mark.parametrize(("value", "part", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_part_that_is_not_there_is_an_error_that_says_what_is(value, part, message: str) -> None:
    for action in (lambda: read(value, part, address="e:output"), lambda: write(value, part, A, address="e:output")):
        with pytest.raises(PartError, match=f"^e:output: there is no part .*{message}"):
            action()


NOT_WRITTEN = {
    "property without a setter": (Box(A), ("fixed",), "^e:output: 'fixed' of a Box can be read but not written: .+"),
    "mapping that cannot be made": (
        OneKey("a", A),
        ("a",),
        "a OneKey cannot be made anew .* Give its class a __copy__",
    ),
}


@pytest.mark.parametrize(("value", "part", "message"), NOT_WRITTEN.values(), ids=NOT_WRITTEN.keys())
def test_a_part_that_cannot_be_written_is_an_error(value, part, message: str) -> None:
    assert read(value, part) is A
    with pytest.raises(PartError, match=message):
        write(value, part, B, address="e:output")


def test_a_default_dict_keeps_its_default() -> None:
    assert write(defaultdict(list, a=A), ("a",), B)["new"] == []


def test_a_field_of_a_model_output_that_was_none_becomes_a_key() -> None:
    output = BaseModelOutputWithPast(last_hidden_state=A)
    assert read(output, ("attentions",)) is None
    written = write(output, ("attentions",), B)
    assert written["attentions"] is written.attentions is written[1] is B
    assert output.attentions is None


def test_a_model_output_s_key_and_attribute_stay_the_same() -> None:
    written = write(BaseModelOutputWithPast(last_hidden_state=A), (0,), B)
    assert written.last_hidden_state is written["last_hidden_state"] is B


@pytest.mark.parametrize(
    "value", [None, A, "text", 3, b"bytes", {1, 2}, Record, DynamicCache(), nn.Linear(1, 1)], ids=lambda v: str(type(v))
)
def test_everything_that_is_no_container_is_a_leaf(value) -> None:
    assert children(value) is None
    assert leaves(value) == [((), value)] if value is not A else True


def test_a_container_without_changes_is_the_same_object() -> None:
    value = {"a": [A, (B, None)], "b": Record(A, "text")}
    assert map_leaves(lambda _, leaf: leaf, value) is value


def test_only_the_way_to_a_change_is_new() -> None:
    value = {"a": [A, (B, None)], "b": Record(A, "text")}
    changed = map_leaves(lambda part, leaf: "new" if part == ("b", "second") else leaf, value)
    assert changed["b"].second == "new"
    assert value["b"].second == "text"
    assert changed["a"] is value["a"]


def test_the_function_is_told_where_each_leaf_is() -> None:
    parts = []
    map_leaves(lambda part, leaf: parts.append(part), {"a": (A, Pair(A, [B])), 3: B}, ("start",))
    assert parts == [("start", "a", 0), ("start", "a", 1, "left"), ("start", "a", 1, "right", 0), ("start", 3)]
    assert [part for part, _ in leaves({"a": (A, Pair(A, [B])), 3: B}, ("start",))] == parts


def test_a_container_in_itself_is_a_leaf_there() -> None:
    value: list = [A]
    value += [value, {"again": value}]
    assert [part for part, _ in leaves(value)] == [(0,), (1,), (2, "again")]
    assert map_leaves(lambda _, leaf: leaf, value) is value


def test_a_container_that_is_there_twice_is_walked_twice() -> None:
    pair = [A, B]
    assert len(leaves((pair, pair))) == 4


def nested(leaf: st.SearchStrategy) -> st.SearchStrategy:
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
            st.builds(Record, inner, inner),
            st.builds(Pair, inner, inner),
        ),
        max_leaves=8,
    )


@given(nested(st.integers()), st.data())
def test_what_is_written_is_what_is_read_and_all_else_stays(value, data) -> None:
    places = leaves(value)
    part, old = data.draw(st.sampled_from(places)) if places else ((), value)
    new = object()
    written = write(value, part, new)
    assert read(written, part) is new
    assert read(value, part) == old
    assert [leaf for place, leaf in leaves(written) if place != part] == [
        leaf for place, leaf in places if place != part
    ]


@given(nested(st.integers()))
def test_rebuilding_from_the_children_gives_an_equal_value_of_the_same_type(value) -> None:
    inner = children(value)
    if inner is not None:
        again = rebuild(value, [item for _, item in inner])
        assert again == value
        assert type(again) is type(value)


@given(nested(st.integers()), st.data())
def test_writing_leaves_every_container_of_the_original_as_it_was(value, data) -> None:
    before = copy.deepcopy(value)
    for part, _ in leaves(value):
        for end in range(1, len(part) + 1):
            write(value, part[:end], "new")
    assert value == before


@given(nested(st.integers()))
def test_mapping_to_itself_gives_itself(value) -> None:
    assert map_leaves(lambda _, leaf: leaf, value) is value


@given(nested(st.integers()))
def test_every_leaf_is_read_where_it_is_said_to_be(value) -> None:
    for part, leaf in leaves(value):
        assert read(value, part) is leaf


NESTED = {
    "tuple": (A, (B, A)),
    "list": [A, [B]],
    "dict": {"a": A, "b": {"c": B}},
    "named tuple": Pair(A, Pair(B, A)),
    "dataclass": Record(A, B),
    "frozen dataclass": Frozen((A, B)),
    "all": {"a": (A, [B]), "c": Record(A, Pair(B, Frozen(A)))},
}


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("value", NESTED.values(), ids=NESTED.keys())
def test_walking_a_structure_compiles_without_a_graph_break(value) -> None:
    def double(value):
        return map_leaves(lambda _, leaf: leaf * 2 if isinstance(leaf, torch.Tensor) else leaf, value)

    expected, got = double(value), torch.compile(double, backend="eager", fullgraph=True)(value)
    assert type(got) is type(value)
    assert [part for part, _ in leaves(got)] == [part for part, _ in leaves(value)]
    for (_, each), (_, other) in zip(leaves(got), leaves(expected), strict=True):
        assert each is other or torch.equal(torch.as_tensor(each), torch.as_tensor(other))


@pytest.mark.usefixtures("fresh_compiler")
def test_reading_and_writing_a_part_compiles_without_a_graph_break() -> None:
    def second_doubled(value):
        return write(value, ("a", 1), read(value, ("a", 1)) * 2)

    got = torch.compile(second_doubled, backend="eager", fullgraph=True)({"a": (A, B + 1)})
    assert got["a"][0] is A
    assert torch.equal(got["a"][1], (B + 1) * 2)


@pytest.mark.usefixtures("fresh_compiler")
def test_what_a_torch_function_returns_keeps_its_type_in_compiled_code() -> None:
    def doubled_max(tensor):
        return map_leaves(lambda _, leaf: leaf * 2, torch.max(tensor, 0))

    got = torch.compile(doubled_max, backend="eager", fullgraph=True)(torch.ones(2, 2))
    assert type(got) is torch.return_types.max
    assert torch.equal(got.values, torch.full((2,), 2.0))
