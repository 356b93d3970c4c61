"""Every hook on a model, PyTorch's own included."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from hookline.core.hook import PHASES, origin
from hookline.hooks.record import Record
from hookline.intercept.functional.sites import FunctionSites, function_hooks
from hookline.intercept.state import FAST_PATH, sites
from hookline.table import aligned

_NATIVE = {
    "_forward_pre_hooks": "forward pre hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "full backward pre hook",
    "_backward_hooks": "full backward hook",
    "_state_dict_pre_hooks": "state_dict pre hook",
    "_state_dict_hooks": "state_dict hook",
    "_load_state_dict_pre_hooks": "load_state_dict pre hook",
    "_load_state_dict_post_hooks": "load_state_dict post hook",
}


@dataclass(frozen=True)
class HookInfo:
    """One hook on one module.

    Attributes:
        path: the module's path in the model; "." is the model itself.
        owner: "torch", "hookline" (a drop-in function) or "hookline.Hooks".
        kind: "forward pre hook", "forward hook", ...; for hookline's "before", "around", "after", "gradient" or
            "after backward", with the method when it is not forward.
        order: 0 for the first hook of its owner and kind on that module to run, then 1, 2, ...
        function: the function's qualified name.
        source: its file and line, or "" where Python does not know them.
        hook: the function.
    """

    path: str
    owner: str
    kind: str
    order: int
    function: str
    source: str
    hook: Any


class HookList(tuple[HookInfo, ...]):
    """The hooks on a model; prints as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return "no hooks"
        rows = [(info.path, info.owner, info.kind, info.order, info.function, info.source) for info in self]
        return aligned(("path", "owner", "kind", "order", "function", "source"), rows)


def hooks_on(model: nn.Module) -> HookList:
    """Return every hook on every module of `model`: hookline's and PyTorch's, in the order of the modules.

    Hooks that PyTorch holds for all modules of the process (`torch.nn.modules.module.register_module_forward_hook`)
    are not the model's and not listed.
    """
    return HookList(
        info
        for path, module in model.named_modules()
        for infos in (_native(path or ".", module), _ours(path or ".", module))
        for info in infos
    )


def _native(path: str, module: nn.Module) -> Iterator[HookInfo]:
    for attribute, kind in _NATIVE.items():
        hooks = getattr(module, attribute, None) or {}
        functions = [function for key, function in hooks.items() if key != FAST_PATH]
        for order, function in enumerate(functions):
            yield _info(path, "torch", kind, order, getattr(function, "hook", function))


def _ours(path: str, module: nn.Module) -> Iterator[HookInfo]:
    for method, site in sites(module).items():
        of_method = "" if method == "forward" else f" {method}()"
        for hooks in (site.before, site.around, site.after, site.gradient):
            for order, hook in enumerate(hooks):
                if not isinstance(hook.about, FunctionSites):
                    owner = "hookline.Hooks" if isinstance(hook.about, Record) else "hookline"
                    yield _info(path, owner, PHASES[hook.phase] + of_method, order, hook.function)
    for order, (method, function, hook) in enumerate(function_hooks(module)):
        owner = "hookline.Hooks" if isinstance(hook.about, Record) else "hookline"
        of_method = "" if method == "forward" else f"{method}()"
        yield _info(path, owner, f"{PHASES[hook.phase]} {of_method}/{function}", order, hook.function)


def _info(path: str, owner: str, kind: str, order: int, function: Any) -> HookInfo:
    name, source = origin(function)
    return HookInfo(path, owner, kind, order, name, source, inspect.unwrap(function))
