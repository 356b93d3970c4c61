"""The mode in which a module's own forward runs, so that the torch functions it calls are seen."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from torch import nn
from torch.overrides import TorchFunctionMode

from hookline.intercept.functional.naming import name_of

Function = Callable[..., Any]


class Listener(Protocol):
    """Who wants to see calls of functions."""

    def wants(self, name: str) -> bool:
        """Return whether calls of the function of that name are to be handed over."""

    def call(
        self, module: nn.Module, name: str, occurrence: int, function: Function, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Make the call, with what belongs around it, and return its result."""


# By module, then by method: how often it called which function when it ran last.
_seen: weakref.WeakKeyDictionary[nn.Module, dict[str, Counter[str]]] = weakref.WeakKeyDictionary()


def seen_functions(module: nn.Module, method: str = "forward") -> dict[str, int]:
    """Return how often the module's own forward, or another method, called which function in its latest run."""
    return dict(_seen.get(module, {}).get(method, {}))


def run_listening(listener: Listener, module: nn.Module, method: str, proceed: Callable[[], Any]) -> Any:
    """Return `proceed()`, which runs the module's method, with the functions that it calls itself handed to `listener`.

    What the modules inside call is not its own. Of functions that call others (`F.relu` calls `torch.relu`) the
    outermost is seen: torch takes the mode off while it runs.
    """
    counts: Counter[str] = Counter()
    _seen.setdefault(module, {})[method] = counts
    with _OwnCalls(listener, module, counts, sys._getframe()):
        return proceed()


class _OwnCalls(TorchFunctionMode):
    def __init__(self, listener: Listener, module: nn.Module, counts: Counter[str], within: FrameType) -> None:
        super().__init__()
        self._listener = listener
        self._module = module
        self._counts = counts
        self._within = within

    def __torch_function__(
        self, func: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        if name is None or not _is_own(sys._getframe(1), self._within):
            return func(*args, **kwargs)
        occurrence = self._counts[name]
        self._counts[name] += 1
        if not self._listener.wants(name):
            return func(*args, **kwargs)
        return self._listener.call(self._module, name, occurrence, func, args, kwargs)


# What `module(x)` goes through, whatever the class.
_CALL = nn.Module._wrapped_call_impl.__code__


def _is_own(frame: FrameType | None, within: FrameType) -> bool:
    """Return whether no module was called between the frame that listens and the one that calls the function."""
    while frame is not None and frame is not within:
        if frame.f_code is _CALL:
            return False
        frame = frame.f_back
    return True
