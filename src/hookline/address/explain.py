"""Why nothing in a model fits, in words that lead to what does."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import NoReturn

from torch import nn

from hookline.address.nearest import nearest
from hookline.address.paths import Place
from hookline.address.signature import parameter_names
from hookline.address.spelling import Address
from hookline.errors import NoMatchError

_CLASSES = 8


def no_match(what: str, near: Iterable[str] = ()) -> NoReturn:
    """Raise NoMatchError with what is near."""
    named = ", ".join(map(repr, near))
    raise NoMatchError(f"{what}; the nearest: {named}." if named else f"{what}.")


def no_path(address: Address, all_places: list[Place]) -> NoReturn:
    """Raise for a pattern that fits no path."""
    paths = (path for place in all_places for path in place.paths if path)
    no_match(f"no module of the model is at {address.pattern!r}", nearest(address.pattern, paths))


def no_class(cls: type, all_places: list[Place]) -> NoReturn:
    """Raise for a class that no module is of, with the classes that there are."""
    names = {type(place.module).__name__ for place in all_places}
    shown = nearest(cls.__name__, sorted(names), _CLASSES)
    more = f" and {len(names) - len(shown)} others" if len(names) > len(shown) else ""
    no_match(f"the model has no {cls.__name__}; it has: {', '.join(shown)}{more}")


def no_method(address: Address, matched: list[Place]) -> NoReturn:
    """Raise for a method that none of the matched modules has."""
    method, module = str(address.method), matched[0].module
    if isinstance(getattr(module, method, None), nn.Module):
        path = method if address.pattern == "." else f"{address.pattern}.{method}"
        no_match(f"{method!r} of {type(module).__name__} at {address.pattern!r} is a module: write {path!r}")
    methods = {name for cls in {type(place.module) for place in matched} for name in _methods(cls)}
    lacks = f"{type(module).__name__} at {address.pattern!r} has no method"
    if len(matched) > 1:
        lacks = f"none of the {len(matched)} modules at {address.pattern!r} has a method"
    no_match(f"{lacks} {method!r}", nearest(method, sorted(methods)))


def no_argument(address: Address, module: nn.Module) -> NoReturn:
    """Raise for an argument that none of the matched modules takes; `module` is the first of them."""
    method = address.method or "forward"
    has = ", ".join(parameter_names(getattr(module, method)) or ()) or "none"
    raise NoMatchError(
        f"{address}: {type(module).__name__}.{method}() has no argument {address.part[0]!r}; it has: {has}."
    )


def _methods(cls: type) -> list[str]:
    # getattr_static: to ask a class for what its descriptors give can run anything.
    public = (name for name in dir(cls) if not name.startswith("_"))
    return [name for name in public if inspect.isroutine(inspect.getattr_static(cls, name))]
