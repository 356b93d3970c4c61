import functools

import pytest

from hookline.errors import HooklineError, HookTypeError
from hookline.intercept.expected import check_hook

PRE, POST = ("module", "args"), ("module", "args", "output")


class Hooks:
    def method(self, module, args): ...

    @classmethod
    def of_class(cls, module, args): ...

    @staticmethod
    def static(module, args): ...

    def __call__(self, module, args): ...


class Init:
    def __init__(self, module, args): ...


class Unreadable:
    __signature__ = "not a signature"

    def __call__(self, *_): ...


def three(module, args, output): ...


def wrapped(function):
    @functools.wraps(function)
    def run(*args):
        return function(*args)

    return run


FITS = {
    "a function": lambda module, args: None,
    "a default": lambda module, args, extra=None: None,
    "all defaults": lambda module=None, args=None: None,
    "varargs": lambda *args: None,
    "one and varargs": lambda module, *rest: None,
    "an optional keyword-only": lambda module, args, *, extra=None: None,
    "keywords": lambda module, args, **more: None,
    "positional only": lambda module, args, /: None,
    "a method": Hooks().method,
    "a class method": Hooks.of_class,
    "a static method": Hooks.static,
    "an object to call": Hooks(),
    "a class": Init,
    "a partial by name": functools.partial(three, output=1),
    "a partial by position": functools.partial(three, 0),
    "a wrapped function": wrapped(lambda module, args: None),
    "unreadable": Unreadable(),
}


@pytest.mark.parametrize("hook", FITS.values(), ids=FITS.keys())
def test_what_can_be_called_with_the_parameters_is_taken(hook) -> None:
    check_hook(hook, PRE)


MISFITS = {
    "too few": (lambda module: None, r"signature \(module\): too many positional arguments"),
    "too many": (three, r"'three' \(.*test_expected.py:\d+\).*missing a required argument: 'output'"),
    "none at all": (lambda: None, r"hook\(module, args\).*signature \(\)"),
    "a keyword that must be given": (lambda module, args, *, extra: None, "missing a required argument: 'extra'"),
    "keyword-only": (lambda *, module, args: None, "too many positional arguments"),
    "a method": (Hooks().method.__func__, "missing a required argument: 'args'"),
    "an object to call": (type("Bad", (), {"__call__": lambda self, only: None})(), r"signature \(only\)"),
    "a class": (type("Bad", (), {"__init__": lambda self, only: None}), r"signature \(only\)"),
    "a partial with too many": (functools.partial(three, 0, 1), "too many positional arguments"),
    "a wrapped function": (wrapped(lambda only: None), r"signature \(only\)"),
}


@pytest.mark.parametrize(("hook", "message"), MISFITS.values(), ids=MISFITS.keys())
def test_what_cannot_be_called_so_is_refused_with_its_signature_and_place(hook, message: str) -> None:
    with pytest.raises(HookTypeError, match=message) as caught:
        check_hook(hook, PRE)
    assert isinstance(caught.value, (HooklineError, TypeError))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("thing", [None, 5, "layer1", [print]], ids=repr)
def test_what_is_not_callable_is_refused_by_its_type_and_value(thing) -> None:
    with pytest.raises(HookTypeError, match=r"expected a hook to call as hook\(module, args, output\), got \w+: "):
        check_hook(thing, POST)


def test_a_long_value_is_cut_short_in_the_message() -> None:
    with pytest.raises(HookTypeError) as caught:
        check_hook("x" * 10_000, PRE)
    assert len(str(caught.value)) < 250
