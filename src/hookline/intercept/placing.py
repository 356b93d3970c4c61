"""Hooks put where an address says: on a module's method, or on a function that it calls."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.address import Target
from hookline.core import Handle, Hook
from hookline.intercept.functional import attach_function
from hookline.intercept.module_site import attach


def place(target: Target, hook: Hook) -> Handle:
    """Put a hook on the place that a target names."""
    address = target.address
    method = address.method or "forward"
    if address.function is None:
        return attach(target.module, hook, method)
    return attach_function(target.module, hook, (method, address.function, address.occurrence))


def place_all(places: Iterable[tuple[Target, Hook]]) -> list[Handle]:
    """Put each hook on its place: all of them, or on an error none."""
    handles: list[Handle] = []
    try:
        for target, hook in places:
            handles.append(place(target, hook))
    except BaseException:
        for handle in handles:
            handle.remove()
        raise
    return handles
