"""Put hooks on modules and take them off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.nn import Module

from hookline.core import Handle, Hook
from hookline.core.site import NOWHERE, registration
from hookline.intercept.hookable import check_module
from hookline.intercept.hooked_class import catch, restore_class
from hookline.intercept.made import made_from, set_class
from hookline.intercept.state import (
    FAST_PATH,
    OUTSIDE_FORWARD,
    has_forward_sites,
    has_sites,
    keep_off_fast_path,
    site_key,
)


def attach(module: Module, hook: Hook, method: str = "forward") -> Handle:
    """Let `hook` run on calls of `module`, or of another of its methods, from the next call on.

    Raises:
        HookTypeError: `module` is no module, or has no such method.
        HookRefusedError: the module, or the method, cannot be hooked.
    """
    if not isinstance(module, Module):
        check_module(module)
    state = module.__dict__
    key = site_key(method)
    with registration:
        site = state.get(key)
        if site is None:
            _catch(module, state, method)
            site = NOWHERE
        state[key] = site.with_hook(hook)
    return Handle(hook, module, release, method)


def attach_all(places: Iterable[tuple[Module, Hook, str]]) -> list[Handle]:
    """Attach each hook to calls of that method of its module: all of them, or on an error none."""
    handles: list[Handle] = []
    try:
        for module, hook, method in places:
            handles.append(attach(module, hook, method))
    except BaseException:
        for handle in handles:
            handle.remove()
        raise
    return handles


def release(module: Module, hook: Hook, method: str = "forward") -> None:
    """Take `hook` off; with the last one the module is what it was before."""
    state = module.__dict__
    key = site_key(method)
    with registration:
        site = state.get(key, NOWHERE).without(hook)
        if site is not NOWHERE:
            state[key] = site
        elif key in state:
            del state[key]
            made = made_from(type(module))
            if made is not None and made.single:  # the usual case: nothing else to look for
                state["_forward_hooks"].pop(FAST_PATH, None)
                set_class(module, made.base)
            elif not has_forward_sites(module):
                state["_forward_hooks"].pop(FAST_PATH, None)
                if not has_sites(module):
                    restore_class(module)


def _catch(module: Module, state: dict[str, Any], method: str) -> None:
    """Prepare a module for the first hook on one of its methods."""
    if "_forward_hooks" not in state:
        check_module(module)
    catch(module, method)
    if method not in OUTSIDE_FORWARD:
        state["_forward_hooks"][FAST_PATH] = keep_off_fast_path
