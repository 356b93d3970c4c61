import inspect

import pytest

from hookline.address import Arguments
from hookline.errors import PartError


def plain(x, y=2, *, z=3): ...
def loose(x, *rest, flag=False, **extra): ...
def strict(x, /, y): ...


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
    assert arguments.names == ("x", "flag", "mode")


REPLACED = {
    "by position": (bound(plain, 1, 2), "y", ((1, 9), {})),
    "by name": (bound(plain, 1, y=2), "y", ((1,), {"y": 9})),
    "a default": (bound(plain, 1), "z", ((1,), {"z": 9})),
    "an index": (bound(plain, 1, 2), 0, ((9, 2), {})),
    "an index from the end": (bound(loose, 1, 2, 3), -1, ((1, 2, 9), {})),
    "an index that came by name": (bound(plain, 1, y=2), 1, ((1,), {"y": 9})),
    "an extra": (bound(loose, 1, mode=0), "mode", ((1,), {"mode": 9})),
    "positional only": (bound(strict, 1, 2), "x", ((9, 2), {})),
}


@pytest.mark.parametrize(("arguments", "name", "expected"), REPLACED.values(), ids=REPLACED.keys())
def test_an_argument_is_replaced_in_the_way_it_came(arguments: Arguments, name, expected) -> None:
    assert arguments.replaced(name, 9) == expected


@pytest.mark.parametrize("name", ["w", 7, -5])
def test_an_argument_that_is_not_there_is_an_error_that_lists_the_names(name) -> None:
    with pytest.raises(PartError, match=r"there are: x, y, z|by position"):
        bound(plain, 1).replaced(name, 0)
