"""Say why a hook that matched a module never ran."""

from __future__ import annotations

import inspect

from torch import nn

from hookline.address import Target
from hookline.intercept.functional import seen_functions

_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def why_never_fired(model: nn.Module, target: Target, *, others_ran: bool) -> str:
    """Return the likeliest reason, as a sentence that says what to do.

    Args:
        model: the model that the group is on.
        target: where the hook was put.
        others_ran: whether any other hook of the group did.
    """
    module, path = target.module, target.path
    if all(module is not each for each in model.modules()):
        return _gone(model, path)
    if isinstance(module, _CONTAINERS):
        return f"a {type(module).__name__} is a container that nobody calls; hook its items, {_join(path, '*')!r}."
    if target.address.function is not None and (ran := seen_functions(module, target.address.method or "forward")):
        return _not_among(target, ran)
    if target.address.method is not None:
        return f"the method {target.address.method}() was not called on it."
    if inspect.unwrap(type(module).forward) is nn.Module.forward:
        return f"{type(module).__name__} has no forward() of its own to be called."
    parent, name = _parent(model, module)
    if isinstance(parent, nn.MultiheadAttention):
        above = path.rpartition(".")[0]
        return (
            f"nn.MultiheadAttention reads the weights of its {name} without calling it; hook the attention itself, "
            f"{above or '.'!r}."
        )
    if not others_ran:
        return "no hooked module was called; was the model run inside the `with` block?"
    reads = ", or reads its weights without calling it" if any(True for _ in module.parameters(recurse=False)) else ""
    within = type(parent).__name__ if parent is not None else "its parent"
    return f"the run ended before it, or {within} does not call it for this input{reads}."


def _not_among(target: Target, ran: dict[str, int]) -> str:
    """Say which functions the module did call."""
    name, occurrence = target.address.function, target.address.occurrence
    if name in ran and occurrence is not None:
        return f"{target.path} called {name} {ran[name]} times, counted from 0."
    called = ", ".join(f"{each} x {count}" if count > 1 else each for each, count in ran.items())
    return (
        f"{target.path} called no {name} in its own forward; it called: {called}. What modules inside it call is "
        "theirs, and what a function calls is not seen; hookline.functions(model, ...) lists what can be hooked."
    )


def why_no_gradient(unwatched: str) -> str:
    """Return why a hook on gradients did not run, although the module was called.

    Args:
        unwatched: why there was nothing to see in the call; "" if there was.
    """
    if unwatched:
        return f"{unwatched}."
    return (
        "the module was called, and no gradient arrived: backward() has to run inside the `with` block, on something "
        "that was computed from it."
    )


def _gone(model: nn.Module, path: str) -> str:
    """Say what has become of a module that is no longer part of the model."""
    now = model
    for name in path.split("."):
        now = now._modules.get(name) if isinstance(now, nn.Module) else None  # type: ignore[assignment]
    if now is None:
        return "the hooked module is no longer in the model: it was removed after the hook was put on."
    return (
        f"the hooked module is no longer in the model: another {type(now).__name__} was put in its place after the "
        "hook was put on. Register the hook again."
    )


def _parent(model: nn.Module, module: nn.Module) -> tuple[nn.Module | None, str]:
    for each in model.modules():
        for name, child in each.named_children():
            if child is module:
                return each, name
    return None, ""


def _join(path: str, name: str) -> str:
    return name if path in ("", ".") else f"{path}.{name}"
