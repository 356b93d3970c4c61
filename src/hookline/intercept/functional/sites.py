"""Hooks on the functions that a module calls."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import nn

from hookline.core import AROUND, CALL, Call, Handle, Hook, Site, dispatch
from hookline.core.site import NOWHERE, registration
from hookline.intercept.functional.naming import signature_of
from hookline.intercept.functional.own_calls import run_listening
from hookline.intercept.module_site import attach
from hookline.intercept.undisturbed import undisturbed

_INNERMOST = float("-inf")

Where = tuple[str, str, int | None]
"""The method that calls, the function, and which of its calls; None for all."""


class FunctionSites:
    """The sites of the functions that one method of a module calls: a hook around that method while it has any."""

    only_looks = True  # what changes values are the hooks on the functions, and they are noted themselves

    def __init__(self, module: nn.Module, method: str) -> None:
        self._sites: dict[tuple[str, int | None], Site] = {}
        self._method = method
        self._handle = attach(module, Hook(AROUND, self._run, CALL, priority=_INNERMOST, about=self), method)

    @property
    def path(self) -> str:
        """What is told of the hook around the method; nothing of it is ever raised."""
        return self._method

    @property
    def hooks(self) -> list[tuple[str, Hook]]:
        """The hooks, each with the function that it is on."""
        return [
            (name if occurrence is None else f"{name}#{occurrence}", hook)
            for (name, occurrence), site in self._sites.items()
            for hook in site
        ]

    def add(self, name: str, occurrence: int | None, hook: Hook) -> None:
        """Put a hook on a function."""
        self._sites = {**self._sites, (name, occurrence): self._site(name, occurrence).with_hook(hook)}

    def remove(self, name: str, occurrence: int | None, hook: Hook) -> bool:
        """Take a hook off; return whether none is left."""
        site = self._site(name, occurrence).without(hook)
        others = {key: other for key, other in self._sites.items() if key != (name, occurrence)}
        self._sites = others if site is NOWHERE else {**others, (name, occurrence): site}
        if not self._sites:
            self._handle.remove()
        return not self._sites

    def wants(self, name: str) -> bool:
        """Return whether there is a hook on the function."""
        return any(known == name for known, _ in self._sites)

    def call(
        self,
        module: nn.Module,
        name: str,
        occurrence: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Make the call with the hooks on all calls of the function, and inside these the hooks on this one."""
        sites = [self._site(name, None), self._site(name, occurrence)]
        for site in sites:
            for hook in site:
                if hasattr(hook.about, "learn_signature"):
                    hook.about.learn_signature(signature_of(function, args, kwargs))

        def innermost(_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        def single(_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return dispatch(sites[1], module, innermost, args, kwargs)

        run = innermost if sites[1] is NOWHERE else single
        return run(module, *args, **kwargs) if sites[0] is NOWHERE else dispatch(sites[0], module, run, args, kwargs)

    @undisturbed
    def _run(self, call: Call, proceed: Callable[[], Any]) -> Any:
        return run_listening(self, call.module, self._method, proceed)

    def _site(self, name: str, occurrence: int | None) -> Site:
        return self._sites.get((name, occurrence), NOWHERE)


_all: weakref.WeakKeyDictionary[nn.Module, dict[str, FunctionSites]] = weakref.WeakKeyDictionary()


def attach_function(module: nn.Module, hook: Hook, where: Where) -> Handle:
    """Let `hook` run on calls of a function inside the module's own method, from the module's next call on.

    Raises:
        HookTypeError, HookRefusedError: the module cannot be hooked.
    """
    method, name, occurrence = where
    with registration:
        of_module = _all.setdefault(module, {})
        if method not in of_module:
            of_module[method] = FunctionSites(module, method)
        of_module[method].add(name, occurrence, hook)
    return Handle(hook, module, _release, where)


def function_hooks(module: nn.Module) -> list[tuple[str, str, Hook]]:
    """Return the hooks on functions that the module calls: the method, the function, the hook."""
    return [
        (method, function, hook) for method, sites in _all.get(module, {}).items() for function, hook in sites.hooks
    ]


def _release(module: nn.Module, hook: Hook, where: Where) -> None:
    method, name, occurrence = where
    with registration:
        of_module = _all.get(module, {})
        if method in of_module and of_module[method].remove(name, occurrence, hook):
            del of_module[method]
