"""Find the modules of a model that the user means."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from torch import nn

from hookline.address.grammar import Address, parse
from hookline.address.match import is_literal, matcher
from hookline.address.nearest import nearest
from hookline.address.paths import Place, places
from hookline.address.selection import Selection, Target
from hookline.address.signature import named_parameters
from hookline.errors import AddressError, NoMatchError


def select(model: nn.Module, what: Any) -> Selection:
    """Return what `what` means in `model`.

    Args:
        model: the module whose submodules are named.
        what: an address such as `"layer*.relu:output"`, an `Address`, a module of the model, a module class, a
            compiled regex that must match a whole path, a predicate `(path, module) -> bool`, or several of these in
            a list, tuple or set.

    Returns:
        Each place once, in the order in which the model registers its modules.

    Raises:
        AddressError: an address is misspelt, or `what` is of no such kind.
        NoMatchError: something in `what` means nothing in the model; the message has the nearest names.
    """
    all_places = places(model)
    order = {id(place.module): position for position, place in enumerate(all_places)}
    found: dict[tuple[int, str], Target] = {}
    for each in _flat(what):
        for target in _find(all_places, each):
            found.setdefault((id(target.module), str(target.address)), target)
    return Selection(sorted(found.values(), key=lambda target: order[id(target.module)]))


def _flat(what: Any) -> Iterable[Any]:
    if isinstance(what, (list, tuple, set, frozenset, Selection)):
        if not what:
            raise AddressError("expected at least one address, got none.")
        for each in what:
            yield from _flat(each)
    else:
        yield what


def _find(all_places: list[Place], what: Any) -> list[Target]:
    """Return the targets of one element; none is an error."""
    if isinstance(what, Target):
        return [what]
    if isinstance(what, (str, Address)):
        return _by_address(all_places, parse(what) if isinstance(what, str) else what)
    if isinstance(what, nn.Module):
        return _targets(all_places, lambda place: place.module is what) or _none(
            f"the {type(what).__name__} is not a module of the model"
        )
    if isinstance(what, type):
        return _targets(all_places, lambda place: isinstance(place.module, what)) or _none(
            f"the model has no {what.__name__}",
            nearest(what.__name__, {type(place.module).__name__ for place in all_places}),
        )
    if isinstance(what, re.Pattern):
        return _targets(all_places, lambda place: any(map(what.fullmatch, place.paths))) or _none(
            f"no module path is matched as a whole by the regex {what.pattern!r}",
            nearest(re.sub(r"\W+", ".", what.pattern), (path for place in all_places for path in place.paths)),
        )
    if callable(what):
        name = getattr(what, "__qualname__", repr(what))
        return _targets(all_places, lambda place: what(place.paths[0], place.module)) or _none(
            f"the predicate {name} is true of no module"
        )
    raise AddressError(
        "expected an address, a module, a module class, a compiled regex, a predicate (path, module) -> bool, or a "
        f"list of these; got {type(what).__name__}: {what!r:.100}."
    )


def _by_address(all_places: list[Place], address: Address) -> list[Target]:
    matches = matcher(address.pattern)
    if is_literal(address.pattern) and address.pattern != ".":
        wanted = address.pattern
        places_there = [place for place in all_places if wanted in place.paths or wanted in place.spelt]
    else:
        places_there = [place for place in all_places if any(map(matches, (*place.paths, *place.spelt)))]
    if not places_there:
        paths = (path for place in all_places for path in place.paths if path)
        return _none(f"no module of the model is at {address.pattern!r}", nearest(address.pattern, paths))
    places_there = _with_method(places_there, address)
    places_there = _with_argument(places_there, address)
    return [_target(place, address) for place in places_there]


def _with_method(places_there: list[Place], address: Address) -> list[Place]:
    """Keep the places whose module has the method that the address names."""
    if address.method is None:
        return places_there
    having = [place for place in places_there if callable(getattr(type(place.module), address.method, None))]
    if not having:
        module = places_there[0].module
        methods = [
            name for name in dir(type(module)) if not name.startswith("_") and callable(getattr(type(module), name))
        ]
        _none(
            f"{type(module).__name__} at {address.pattern!r} has no method {address.method!r}",
            nearest(address.method, methods),
        )
    return having


def _with_argument(places_there: list[Place], address: Address) -> list[Place]:
    """Keep the places whose module can be called with the argument that the address names."""
    if address.side != "input" or not address.part or not isinstance(address.part[0], str) or address.function:
        return places_there
    name = address.part[0]
    known = [(place, _argument_names(place.module, address.method or "forward")) for place in places_there]
    having = [place for place, names in known if names is None or name in names]
    if not having:
        place, names = known[0]
        called = f"{type(place.module).__name__}.{address.method or 'forward'}()"
        raise NoMatchError(f"{address}: {called} has no argument {name!r}; it has: {', '.join(names or ()) or 'none'}.")
    return having


def _argument_names(module: nn.Module, method: str) -> tuple[str, ...] | None:
    try:
        return named_parameters(inspect.signature(getattr(module, method)))
    except (TypeError, ValueError):
        return None


def _targets(all_places: list[Place], wanted: Callable[[Place], object]) -> list[Target]:
    return [_target(place, Address()) for place in all_places if wanted(place)]


def _target(place: Place, address: Address) -> Target:
    return Target(
        place.paths[0] or ".", tuple(path or "." for path in place.paths), place.module, address.at(place.paths[0])
    )


def _none(what: str, near: list[str] | None = None) -> NoReturn:
    hint = f"; the nearest: {', '.join(map(repr, near))}" if near else ""
    raise NoMatchError(f"{what}{hint}.")
