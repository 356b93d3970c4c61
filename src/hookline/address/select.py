"""Find the modules of a model that the user means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from torch import nn

from hookline.address.explain import no_argument, no_class, no_match, no_method, no_path
from hookline.address.grammar import parse
from hookline.address.match import is_literal, matcher, names_of
from hookline.address.nearest import nearest
from hookline.address.paths import MOST_PATHS, Place, places, unwrapped
from hookline.address.selection import Selection, Target
from hookline.address.signature import parameter_names
from hookline.address.spelling import Address
from hookline.errors import AddressError


def select(model: nn.Module, what: Any) -> Selection:
    """Return what `what` means in `model`.

    Args:
        model: the module whose submodules are named.
        what: an address such as `"layer*.relu:output"`, an `Address`, a module of the model, a module class, a
            compiled regex that must match a whole path, a predicate `(path, module) -> bool`, or several of these in
            a list, tuple, set or iterator.

    Returns:
        Each place once, in the order in which the model registers its modules.

    Raises:
        AddressError: an address is misspelt, or `what` is of no such kind.
        NoMatchError: something in `what` means nothing in the model; the message has the nearest names.
    """
    all_places = places(model)
    found: dict[tuple[int, str], tuple[Place, Address]] = {}
    for each in _flat(what):
        matched, address = _find(all_places, each)
        site = str(replace(address, pattern="."))
        for place in matched:
            found.setdefault((id(place.module), site), (place, address))
    order = {id(place.module): position for position, place in enumerate(all_places)}
    return Selection([_target(*found[key]) for key in sorted(found, key=lambda key: order[key[0]])])


def _flat(what: Any) -> Iterable[Any]:
    if not isinstance(what, (list, tuple, AbstractSet, Iterator, Selection)):
        yield what
        return
    several = list(what)
    if not several:
        raise AddressError("expected at least one address, got none.")
    for each in several:
        yield from _flat(each)


def _find(all_places: list[Place], what: Any) -> tuple[list[Place], Address]:
    """Return the places that one element means, and what is meant there; no place is an error."""
    if isinstance(what, str):
        return _by_address(all_places, parse(what))
    if isinstance(what, Address):
        return _by_address(all_places, parse(str(what)))  # one that was put together by hand may not be well-formed
    if isinstance(what, Target):
        return _by_module(all_places, what.module), what.address
    return _by_kind(all_places, what), Address()


def _by_kind(all_places: list[Place], what: Any) -> list[Place]:
    if isinstance(what, nn.Module):
        return _by_module(all_places, what)
    if isinstance(what, type):
        return [place for place in all_places if isinstance(place.module, what)] or no_class(what, all_places)
    if isinstance(what, re.Pattern) and isinstance(what.pattern, str):
        return [place for place in all_places if any(map(what.fullmatch, place.paths))] or no_match(
            f"no module path is matched as a whole by the regex {what.pattern!r}",
            nearest(re.sub(r"\W+", ".", what.pattern), (path for place in all_places for path in place.paths)),
        )
    if callable(what):
        return [place for place in all_places if what(place.paths[0], place.module)] or no_match(
            f"the predicate {getattr(what, '__qualname__', repr(what))} is true of no module"
        )
    raise AddressError(
        "expected an address, a module, a module class, a compiled regex, a predicate (path, module) -> bool, or a "
        f"list of these; got {type(what).__name__}: {what!r:.100}."
    )


def _by_module(all_places: list[Place], module: nn.Module) -> list[Place]:
    wanted = unwrapped(module)
    return [place for place in all_places if place.module is wanted] or no_match(
        f"the {type(module).__name__} is not a module of the model"
    )


def _by_address(all_places: list[Place], address: Address) -> tuple[list[Place], Address]:
    matched = _at_pattern(all_places, address.pattern) or no_path(address, all_places)
    if address.method is not None:
        matched = _with_method(matched, address.method) or no_method(address, matched)
    if address.side == "input" and address.part and not address.function:
        matched = _with_argument(matched, address) or no_argument(address, matched[0].module)
    return matched, address


def _at_pattern(all_places: list[Place], pattern: str) -> list[Place]:
    matches, names = matcher(pattern), frozenset(names_of(pattern))
    found = [
        place
        for place in all_places
        if matches(place.paths[0])
        or any(map(matches, place.paths[1:]))
        # A wrapper's name has to be written out: `*` means the same with the wrapper and without.
        or (place.spelt and any(through <= names and matches(spelt) for spelt, through in place.spelt))
    ]
    if not found and is_literal(pattern) and any(len(place.paths) == MOST_PATHS for place in all_places):
        return _beyond_the_listed(all_places, pattern)
    return found


def _beyond_the_listed(all_places: list[Place], path: str) -> list[Place]:
    """Return the place at a path which may be one of so many that `places` does not list it."""
    try:
        wanted = unwrapped(all_places[0].module.get_submodule(path))
    except AttributeError:
        return []
    return [place for place in all_places if place.module is wanted]


def _with_method(matched: list[Place], method: str) -> list[Place]:
    """Keep the places whose module has the method; on the class, for there it is that calls are caught."""
    return [place for place in matched if callable(getattr(type(place.module), method, None))]


def _with_argument(matched: list[Place], address: Address) -> list[Place]:
    """Keep the places whose module can be called with the argument that the address names."""
    name = address.part[0]
    if not isinstance(name, str):
        return matched
    method = address.method or "forward"
    having = []
    for place in matched:
        names = parameter_names(getattr(place.module, method))
        if names is None or name in names:
            having.append(place)
    return having


def _target(place: Place, address: Address) -> Target:
    paths = tuple(path or "." for path in place.paths)
    return Target(paths[0], paths, place.module, address.at(place.paths[0]))
