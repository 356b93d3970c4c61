"""One function that runs around a call."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

_registered = itertools.count(1)


# When a hook runs. Plain ints, not enums: the call loop compares them on every call, and registration is to be cheap.
BEFORE, AROUND, AFTER = 0, 1, 2
# In the backward pass: when gradients of the output arrive, when those of the inputs are known, when all is done.
OUTPUT_GRADIENT, INPUT_GRADIENT, AFTER_BACKWARD = 3, 4, 5
PHASES = ("before", "around", "after", "gradient", "gradient", "after backward")

# How a hook is handed the call:
ARGS = 0  # hook(module, args) and hook(module, args, output), PyTorch's plain hooks
KWARGS = 1  # hook(module, args, kwargs) and hook(module, args, kwargs, output)
CALL = 2  # hook(call); an around hook gets hook(call, proceed)
# In the backward pass ARGS stands for PyTorch's hook(module, grad_output) and hook(module, grad_input, grad_output).


def _nothing(*_: object) -> None:
    """Stand in for the function of a removed before or after hook."""


def _only_proceed(_: object, proceed: Callable[[], Any]) -> Any:
    """Stand in for the function of a removed around hook."""
    return proceed()


class Hook:
    """A function, when it runs, and how it is handed the call.

    Args:
        phase: BEFORE, AROUND or AFTER the call, or one of the phases of the backward pass.
        function: what to run.
        convention: the parameters that `function` takes: ARGS, KWARGS or CALL.
        always: run an after hook also when the call raised (as clean-up).
        priority: higher runs earlier; equal priorities run in the order of registration.
        prepend: go before every hook of the same priority that is there now.
        applies: asked before each call whether the hook takes part in it; None means always.
        about: what the owner of the hook wants to find on `Call.hook`; the engine does not look at it.

    Attributes:
        key: hooks run in ascending order of this.
        first: the number that the site gives to the first call that this hook sees.
        plain: whether the short call loop can run it.
        removed: whether the hook is spent and will not run again.
    """

    __slots__ = ("about", "always", "applies", "convention", "first", "function", "key", "phase", "plain", "removed")

    def __init__(
        self,
        phase: int,
        function: Callable[..., Any],
        convention: int,
        *,
        always: bool = False,
        priority: float = 0,
        prepend: bool = False,
        applies: Callable[[], bool] | None = None,
        about: Any = None,
    ) -> None:
        self.phase = phase
        self.function = function
        self.convention = convention
        self.always = always
        self.applies = applies
        self.plain = phase in (BEFORE, AFTER) and not always and applies is None
        self.key = (-priority, -next(_registered) if prepend else next(_registered))
        self.about = about
        self.first = 0
        self.removed = False

    def spend(self) -> None:
        """See that the function never runs again, not even later in a call that is under way.

        A call that has begun goes on with the tuple of hooks it started with. Putting a function that does
        nothing in the place of the old one makes removal immediate there too, at no cost to the call loop,
        and lets go of whatever the old function held.
        """
        self.removed = True
        self.function = _only_proceed if self.phase == AROUND else _nothing

    def describe(self) -> str:
        """Return the function's name and where it is defined, e.g. `'keep' (train.py:12)`."""
        return describe_function(self.function)


def origin(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the name of the function inside wrappers and partials, and its file and line: "" where not known."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return name, f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def describe_function(function: Callable[..., Any]) -> str:
    """Return a function's name and where it is defined, e.g. `'keep' (train.py:12)`."""
    name, source = origin(function)
    return f"{name!r} ({source})" if source else repr(name)
