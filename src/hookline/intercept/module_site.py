"""Put hooks on modules and take them off."""

from __future__ import annotations

from torch import nn

from hookline.core import Handle, Hook
from hookline.core.site import NOWHERE, registration
from hookline.intercept.hookable import check_module
from hookline.intercept.hooked_class import catching, restore_class
from hookline.intercept.made import set_class
from hookline.intercept.state import FAST_PATH, FORWARD, keep_off_fast_path, site_key


def attach(module: nn.Module, hook: Hook, method: str = "forward") -> Handle:
    """Let `hook` run on calls of `module`, or of another of its methods, from the next call on.

    Raises:
        HookTypeError: `module` is no module, or has no such method.
        HookRefusedError: the module, or the method, cannot be hooked.
    """
    if not isinstance(module, nn.Module) or "_forward_hooks" not in module.__dict__:
        check_module(module)
    key = FORWARD if method == "forward" else site_key(method)
    state = module.__dict__
    with registration:
        site = state.get(key)
        if site is None:
            caught = catching(type(module), method, method in state)
            if caught is not type(module):
                set_class(module, caught)
            site = NOWHERE
            if key == FORWARD:
                state["_forward_hooks"][FAST_PATH] = keep_off_fast_path
        state[key] = site.with_hook(hook)
    return Handle(hook, module, release if key == FORWARD else _Release(method))


def release(module: nn.Module, hook: Hook, method: str = "forward") -> None:
    """Take `hook` off; with the last one the module is what it was before."""
    key = FORWARD if method == "forward" else site_key(method)
    state = module.__dict__
    with registration:
        site = state.get(key, NOWHERE).without(hook)
        if site is not NOWHERE:
            state[key] = site
        elif key in state:
            del state[key]
            if key == FORWARD:
                state["_forward_hooks"].pop(FAST_PATH, None)
            restore_class(module)


class _Release:
    """`release` for one named method."""

    __slots__ = ("_method",)

    def __init__(self, method: str) -> None:
        self._method = method

    def __call__(self, module: nn.Module, hook: Hook) -> None:
        release(module, hook, self._method)
