"""Check, when a hook is registered, that it can take what it will be given."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from hookline.core.hook import describe_function
from hookline.errors import HookTypeError

_VARARGS = inspect.CO_VARARGS


def check_hook(hook: Any, parameters: tuple[str, ...]) -> None:
    """Raise `HookTypeError` unless `hook` can be called with these positional parameters.

    A callable whose signature Python cannot read (some built-ins) is let through.
    """
    # The usual case, without the 10 us that inspect.signature takes.
    if type(hook) is FunctionType and not hook.__code__.co_kwonlyargcount:
        most = hook.__code__.co_argcount
        least = most - len(hook.__defaults__ or ())
        if least <= len(parameters) and (len(parameters) <= most or hook.__code__.co_flags & _VARARGS):
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
