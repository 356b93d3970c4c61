"""Methods that are hidden by an attribute of the same name on the instance, and are caught all the same.

`module.forward = something` is how accelerate patches models and how people compile a single method. Python then
looks no further than the instance. A data descriptor on the class comes before the instance: through it the hooks
run around whatever the attribute holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn

from hookline.core import dispatch
from hookline.intercept.named_like import is_our_method
from hookline.intercept.state import site_key

_NOTHING = object()
_BOUND = "__hookline_bound__"


class ShadowedMethod:
    """The descriptor that a hooked class has in the place of a method that instances may hide."""

    def __init__(self, base: type[nn.Module], name: str, unbound: Callable[..., Any]) -> None:
        self.base = base
        self.name = name
        self.unbound = unbound

    def __get__(self, module: nn.Module | None, owner: type | None = None) -> Callable[..., Any]:
        """Return a callable that runs the hooks around what the attribute holds at this moment.

        Once the attribute has been replaced the hooks belong around its successor. Whoever kept the callable (to
        call it from the successor, say) then gets the bare function, so that hooks run once a call.
        """
        if module is None:
            return self.unbound
        name, key = self.name, site_key(self.name)
        attribute = module.__dict__.get(name, _NOTHING)
        method = getattr(self.base, name)
        function = method.__get__(module) if attribute is _NOTHING else attribute

        def without_module(_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        def bound(*args: Any, **kwargs: Any) -> Any:
            state = module.__dict__
            site = state.get(key)
            if site is None or state.get(name, _NOTHING) is not attribute:
                return function(*args, **kwargs)
            return dispatch(site, module, without_module, args, kwargs)

        bound = functools.update_wrapper(bound, function)
        setattr(bound, _BOUND, (bound, module, attribute))
        return bound

    def __set__(self, module: nn.Module, value: Any) -> None:
        """Set the attribute; a callable that was read from it earlier puts back what was there then."""
        bound, of, attribute = getattr(value, _BOUND, (None, None, None))
        # `bound is value`: functools.wraps copies our mark to functions that wrap ours.
        if bound is value and of is module:
            value = attribute
        if value is _NOTHING or is_our_method(value, module):
            module.__dict__.pop(self.name, None)
        else:
            module.__dict__[self.name] = value

    def __delete__(self, module: nn.Module) -> None:
        try:
            del module.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None
