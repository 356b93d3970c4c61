import copy
import types
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence
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


class Bag(list):
    pass


A, B = torch.ones(2), torch.zeros(3)
CONTAINERS = {
    "tuple": ((A, B), 1, B),
    "tuple from the end": ((A, B), -1, B),
    "list": ([A, B], 0, A),
    "named tuple by name": (Pair(A, B), "right", B),
    "named tuple by index": (Pair(A, B), 1, B),
    "return type": (torch.return_types.max((A, B)), 1, B),
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
    before = copy.copy(value)
    assert read(value, (key,)) is part
    new = torch.full((1,), 9.0)
    written = write(value, (key,), new)
    assert type(written) is type(value)
    assert read(written, (key,)) is new
    assert read(value, (key,)) is part
    assert [item for _, item in children(written) or []] == [
        new if item is part else item for _, item in children(value) or []
    ]
    assert repr(value) == repr(before)


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
    "number": (3, (0,), "of type int"),
    "object": (types.SimpleNamespace(a=1), ("b",), "with attributes: a"),
}


@pytest.mark.parametrize(("value", "part", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_part_that_is_not_there_is_an_error_that_says_what_is(value, part, message: str) -> None:
    for action in (lambda: read(value, part, address="e:output"), lambda: write(value, part, A, address="e:output")):
        with pytest.raises(PartError, match=f"^e:output: there is no part .*{message}"):
            action()


def test_a_container_without_changes_is_the_same_object() -> None:
    value = {"a": [A, (B, None)], "b": Record(A, "text")}
    assert map_leaves(lambda _, leaf: leaf, value) is value


def test_a_container_in_itself_does_not_go_on_for_ever() -> None:
    value: list = [A]
    value.append(value)
    assert len(leaves(value)) > 1


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


@pytest.mark.usefixtures("fresh_compiler")
def test_walking_a_structure_compiles_without_a_graph_break() -> None:
    def double(value):
        return map_leaves(lambda _, leaf: leaf * 2, value)

    value = {"a": (A, [B]), "c": Record(A, B)}
    value["c"].count = B
    out = torch.compile(double, backend="eager", fullgraph=True)(value)
    assert torch.equal(out["a"][0], A * 2)
    assert torch.equal(out["c"].second, B * 2)
