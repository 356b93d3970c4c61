"""The methods that a hooked class has in place of its base's: they run the hooks around the original."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from hookline.core import dispatch
from hookline.errors import HookRefusedError
from hookline.intercept.state import FAST_PATH, FORWARD, site_key

# The registries of torch.nn.modules.module.register_module_*: dicts that torch fills and empties in place.
_pre_hooks = torch_module._global_forward_pre_hooks
_hooks = torch_module._global_forward_hooks
_backward_hooks = torch_module._global_backward_hooks
_backward_pre_hooks = torch_module._global_backward_pre_hooks
_tracing = torch._C._get_tracing_state


def method(base: type[nn.Module], name: str) -> Callable[..., Any]:
    """Return a method that runs the hooks of the site `name` around the method of `base`.

    The method of `base` is looked up on each call, so that whoever replaces it on the class is heard.
    """
    key = site_key(name)

    def run(self: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__
        # An attribute on the instance hides this method. If it calls us all the same (having kept the method
        # that it replaced), the hooks have run around it already.
        site = state.get(key)
        if type(args) is not tuple:
            _refuse_fx(base, name)
        if site is None or name in state:
            return getattr(base, name)(self, *args, **kwargs)
        return dispatch(site, self, getattr(base, name), args, kwargs)

    return run


def _refuse_fx(base: type[nn.Module], name: str) -> None:
    raise HookRefusedError(
        f"torch.fx cannot trace the hooked {base.__name__} itself: it rewrites functions like its {name}, with "
        "keyword-only or variable parameters, by their code. Trace a module that contains it, or remove its hooks "
        "first; hooks on the modules inside are no obstacle."
    )


def call_impl(base: type[nn.Module], shadow: Callable[[nn.Module], None] | None) -> Callable[..., Any]:
    """Return a `_call_impl` that goes from `module(x)` to the hooks without the detour through `forward`.

    torch's own does three things: it runs native hooks, it calls `forward`, and it skips the first when there are
    none. This one takes over only in that last case: so the hooks cost one Python frame less, and nothing more
    than their own time when the module has no native hooks. Without it everything would still work.

    It also notices a `forward` that was written straight into the instance's `__dict__` after the module was hooked:
    then `shadow` is to change the module's class for one whose hooks run around that.
    """

    def run(self: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__
        site = state.get(FORWARD)
        native = state["_forward_hooks"]
        if (
            site is None
            or FAST_PATH not in native
            or len(native) > 1
            or "forward" in state
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _pre_hooks
            or _hooks
            or _backward_hooks
            or _backward_pre_hooks
            or _tracing()
        ):
            if site is not None and "forward" in state:
                if shadow is not None:
                    shadow(self)
                elif torch.compiler.is_dynamo_compiling():
                    # Dynamo guards on what the instance holds, and would find what our descriptor answers.
                    torch._dynamo.graph_break(msg="hookline: a hooked module with its own forward attribute")
            return base._call_impl(self, *args, **kwargs)  # type: ignore[no-untyped-call]
        return dispatch(site, self, base.forward, args, kwargs)

    return run
