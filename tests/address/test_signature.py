import gc
import inspect
import weakref

import pytest

from hookline.address import Arguments, parameter_names
from hookline.errors import PartError


def plain(x, y=2, *, z=3): ...
def loose(x, *rest, flag=False, **extra): ...
def strict(x, /, y): ...
def defaults(x, y=2, z=3, /): ...
def shared(x, /, **extra): ...


def bound(function, *args, **kwargs) -> Arguments:
    return Arguments(inspect.signature(function), args, kwargs)


def test_arguments_are_read_by_name_defaults_included() -> None:
    arguments = bound(plain, 1, z=5)
    assert [arguments[name] for name in arguments.names] == [1, 2, 5]


def test_arguments_are_read_by_position_also_those_that_came_by_name() -> None:
    assert bound(plain, 1, y=7)[0] == 1
    assert bound(plain, 1, y=7)[1] == 7
    assert bound(loose, 1, 8, 9)[-1] == 9


def test_names_under_kwargs_are_names_like_the_others() -> None:
    arguments = bound(loose, 1, 8, mode="fast")
    assert arguments["mode"] == "fast"
    assert arguments.names == ("x", "rest", "flag", "mode")


REPLACED = {
    "by position": (bound(plain, 1, 2), "y", ((1, 9), {})),
    "by name": (bound(plain, 1, y=2), "y", ((1,), {"y": 9})),
    "a default": (bound(plain, 1), "z", ((1,), {"z": 9})),
    "an index": (bound(plain, 1, 2), 0, ((9, 2), {})),
    "an index from the end": (bound(loose, 1, 2, 3), -1, ((1, 2, 9), {})),
    "an index that came by name": (bound(plain, 1, y=2), 1, ((1,), {"y": 9})),
    "an extra": (bound(loose, 1, mode=0), "mode", ((1,), {"mode": 9})),
    "positional only, not passed": (bound(defaults, 1), "z", ((1, 2, 9), {})),
    "positional only, by index": (bound(defaults, 1), 2, ((1, 2, 9), {})),
    "what is under *args": (bound(loose, 1, 2, 3, mode=0), "rest", ((1, 7, 8), {"mode": 0}), (7, 8)),
    "what is under *args after a name": (bound(loose, x=1, flag=True), "rest", ((1, 7), {"flag": True}), (7,)),
    "a name that is positional only and an extra": (bound(shared, 1, x=2), "x", ((9,), {"x": 2})),
    "positional only": (bound(strict, 1, 2), "x", ((9, 2), {})),
}


@pytest.mark.parametrize("case", REPLACED.values(), ids=REPLACED.keys())
def test_an_argument_is_replaced_in_the_way_it_came(case) -> None:
    arguments, name, expected, *other = case
    value = other[0] if other else 9
    args, kwargs = arguments.replaced(name, value)
    assert (args, kwargs) == expected
    assert Arguments(arguments.signature, args, kwargs)[name] == value


def test_the_name_of_args_means_all_that_is_under_it() -> None:
    assert bound(loose, 1, 8, 9)["rest"] == (8, 9)
    assert bound(loose, 1)["rest"] == ()


def test_an_argument_that_was_not_passed_and_has_no_default_is_not_there() -> None:
    assert bound(plain).names == ("y", "z")
    with pytest.raises(PartError, match="no argument 'x'; there are: y, z"):
        bound(plain)["x"]


@pytest.mark.parametrize("name", ["w", 7, -5])
def test_an_argument_that_is_not_there_is_an_error_that_lists_the_names(name) -> None:
    with pytest.raises(PartError, match=r"there are: x, y, z|by position"):
        bound(plain, 1).replaced(name, 0)


class Owner:
    def method(self, x, *, y=1): ...
    def swallow(*args): ...


class Unhashable:
    __hash__ = None

    def __call__(self, x): ...


NAMES = {
    "function": (plain, ("x", "y", "z")),
    "any name": (loose, None),
    "bound method": (Owner().method, ("x", "y")),
    "the same method, not bound": (Owner.method, ("self", "x", "y")),
    "self under *args": (Owner().swallow, ("args",)),
    "unhashable": (Unhashable(), ("x",)),
    "no signature": (dict.fromkeys(["a"]).update, None),
    "not callable": (3, None),
}


@pytest.mark.parametrize(("function", "names"), NAMES.values(), ids=NAMES.keys())
def test_the_names_that_an_argument_can_have_are_told_twice_alike(function, names) -> None:
    assert parameter_names(function) == names
    assert parameter_names(function) == names


def test_a_signature_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh(x): ...

    parameter_names(fresh)
    monkeypatch.setattr(inspect, "signature", None)
    assert parameter_names(fresh) == ("x",)


def test_a_function_that_was_asked_about_is_not_kept() -> None:
    def fresh(x): ...

    parameter_names(fresh)
    dead = weakref.ref(fresh)
    del fresh
    gc.collect()
    assert dead() is None
