"""Check, when a hook is registered, that it can take what it will be given."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any, NoReturn

from hookline.core.hook import describe_function
from hookline.errors import HookTypeError


def check_hook(hook: Any, parameters: tuple[str, ...]) -> None:
    """Raise `HookTypeError` unless `hook` can be called with these positional parameters.

    A callable whose signature Python cannot read (some built-ins) is let through.
    """
    # The usual case, without the 10 us that inspect.signature takes.
    if type(hook) is FunctionType:
        code = hook.__code__
        if code.co_argcount == len(parameters) and not code.co_kwonlyargcount:
            return
    if not callable(hook):
        raise HookTypeError(
            f"expected a hook to call as hook({', '.join(parameters)}), got {type(hook).__name__}: {hook!r:.100}."
        )
    try:
        signature = inspect.signature(hook)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise HookTypeError(
            f"the hook {describe_function(hook)} is called as hook({', '.join(parameters)}), which does not fit "
            f"its signature {signature}: {error}."
        ) from None


def refuse_options(function: str, unknown: Iterable[str], known: tuple[str, ...]) -> NoReturn:
    """Raise `HookTypeError` for options that a function does not have."""
    raise HookTypeError(
        f"{function}() has no option {', '.join(map(repr, unknown))}; it has: {', '.join(known)}, each True or False."
    )
