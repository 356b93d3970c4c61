"""Functions that pass for others."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

_ours: weakref.WeakSet[FunctionType] = weakref.WeakSet()


def named_like(original: Any, function: FunctionType | Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with the name, docstring and signature of `original`, and a code object of its own.

    torch.compile counts recompilations per code object, and CPython specialises per code object: classes that
    shared one would use up each other's allowance.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=getattr(original, "__name__", function.__name__))
    copy = FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
    _ours.add(copy)
    return functools.wraps(original)(copy)


def is_our_method(value: Any, module: object) -> bool:
    """Return whether `value` is a method of `module` that `named_like` has made."""
    return isinstance(value, MethodType) and value.__self__ is module and value.__func__ in _ours
