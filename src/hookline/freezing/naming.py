"""What a user names when freezing: modules with all that is in them, or bare parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

from hookline.address import Address, Selection, parse, select
from hookline.address.match import matcher
from hookline.address.nearest import nearest
from hookline.errors import AddressError, NoMatchError
from hookline.freezing.layout import Layout, Part, Slot

# What torch.nn.utils.weight_norm and spectral_norm, the older ones, keep a weight as.
_KEPT_AS = (("_g", "_v"), ("_orig",))


def named(layout: Layout, where: Iterable[Any]) -> Part:
    """Return all that `where` names in the model.

    Args:
        layout: the model.
        where: addresses of modules or of parameters, parameters, modules, classes, regexes, predicates, or lists.

    Raises:
        NoMatchError: something in `where` names neither a module nor a parameter.
        AddressError: an address is misspelt, or names a value and not a module or parameter.
    """
    part = Part()
    for each in _flat(where):
        part |= _named(layout, each)
    if where and not part:
        raise AddressError("expected at least one address, got none.")
    return part


def _flat(where: Any) -> Iterator[Any]:
    if isinstance(where, (list, tuple, AbstractSet, Iterator, Selection)):
        for each in where:
            yield from _flat(each)
    else:
        yield where


def _named(layout: Layout, what: Any) -> Part:
    if isinstance(what, nn.Parameter):
        found = {slot.key: slot for slot in layout.slots if slot.tensor is what}
        if not found:
            raise NoMatchError(f"the parameter of shape {tuple(what.shape)} is not one of the model.")
        return Part(slots=found)
    if isinstance(what, (str, Address)):
        return _at_address(layout, parse(str(what)))
    if isinstance(what, re.Pattern) and isinstance(what.pattern, str):
        bare = _bare(layout, what.fullmatch)
        return bare | _modules(layout, what, missing_is_fine=bool(bare))
    selection = select(layout.model, what)
    for target in selection:
        _check_address(target.address)
    return layout.whole(target.module for target in selection)


def _at_address(layout: Layout, address: Address) -> Part:
    _check_address(address)
    bare = _bare(layout, matcher(address.pattern))
    part = bare | _modules(layout, str(address), missing_is_fine=True)
    if part:
        return part
    paths = (path for slot in layout.slots for path in slot.paths)
    near = nearest(address.pattern, [*paths, *(path for place in layout.places for path in place.paths if path)])
    raise NoMatchError(
        f"no module or parameter of the model is at {address.pattern!r}; the nearest: {', '.join(map(repr, near))}."
    )


def _modules(layout: Layout, what: Any, *, missing_is_fine: bool) -> Part:
    try:
        return layout.whole(target.module for target in select(layout.model, what))
    except NoMatchError:
        if missing_is_fine:
            return Part()
        raise


def _bare(layout: Layout, matches: Any) -> Part:
    """Return the parameters whose own path matches, also by the name that a parametrization shows them under."""
    found = {slot.key: slot for slot in layout.slots if any(map(matches, slot.paths))}
    for place in layout.places:
        for name, kept in _shown(place.module):
            if any(matches(f"{path}.{name}" if path else name) for path in place.paths):
                found |= {slot.key: slot for slot in layout.slots if slot.key in kept}
    return Part(slots=found)


def _shown(module: nn.Module) -> Iterator[tuple[str, set[tuple[int, str]]]]:
    """Yield the name of each weight that is computed from other parameters, and the places of those."""
    if parametrize.is_parametrized(module):
        for name, computing in module.parametrizations.items():  # type: ignore[union-attr, operator]
            yield name, {(id(each), key) for each in computing.modules() for key in each._parameters}
    for endings in _KEPT_AS:
        for held in list(module._parameters.keys()):  # of a ScriptModule they cannot be iterated over
            name = held.removesuffix(endings[0])
            kept = {(id(module), name + ending) for ending in endings}
            if name != held and all(name + ending in module._parameters for ending in endings):
                yield name, kept


def _check_address(address: Address) -> None:
    if address.side or address.method or address.function:
        raise AddressError(
            f"{str(address)!r} names a value of a call; freezing is of modules and parameters: write "
            f"{address.pattern!r}."
        )


def outermost(layout: Layout, part: Part) -> list[Slot | nn.Module]:
    """Return the modules of `part` that lie below no other one of it, and the parameters that no module of it owns."""
    below = {id(child) for module in part.modules.values() for child in list(module.modules())[1:]}
    modules = [place.module for place in layout.places if id(place.module) in part.modules.keys() - below]
    return [*modules, *(slot for key, slot in part.slots.items() if key[0] not in part.modules)]
