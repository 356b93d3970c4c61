"""PyTorch's registration functions, with the module first and the traps mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch import nn

from hookline.core import AFTER, ARGS, BEFORE, KWARGS, Handle, Hook
from hookline.intercept.expected import check_hook, refuse_options
from hookline.intercept.module_site import attach


def register_forward_pre_hook(
    module: nn.Module,
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    **unknown: NoReturn,
) -> Handle:
    """Run `hook` each time before `module` runs: `torch.nn.Module.register_forward_pre_hook`, mended.

    Args:
        module: the module whose calls are caught, also calls of `module.forward(...)` and compiled ones.
        hook: called as `hook(module, args)`, with `args` the tuple of positional arguments. None keeps them; a
            tuple replaces them; anything else becomes the single new argument.
            With `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or `(args, kwargs)`.
        prepend: go before the hooks that are on the module now, not after them.
        with_kwargs: hand the hook the keyword arguments too.
        unknown: there are no other options; one is refused.

    Returns:
        A handle: `remove()` takes the hook off, and so does the end of `with handle:`.

    Raises:
        HookTypeError: `module` is no module, `hook` cannot be called like that, or there is no such option.
        HookRefusedError: the module cannot be hooked (TorchScript).
        HookResultError: at call time, when a hook with kwargs returned something else than `(args, kwargs)`.
    """
    if unknown:
        refuse_options("register_forward_pre_hook", unknown, ("prepend", "with_kwargs"))
    check_hook(hook, ("module", "args", "kwargs") if with_kwargs else ("module", "args"))
    return attach(module, Hook(BEFORE, hook, KWARGS if with_kwargs else ARGS, prepend=prepend))


def register_forward_hook(
    module: nn.Module,
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    always_call: bool = False,
    **unknown: NoReturn,
) -> Handle:
    """Run `hook` each time after `module` has run: `torch.nn.Module.register_forward_hook`, mended.

    Args:
        module: the module whose calls are caught, also calls of `module.forward(...)` and compiled ones.
        hook: called as `hook(module, args, output)`, or `hook(module, args, kwargs, output)` with `with_kwargs`;
            the arguments are those after the pre hooks. None keeps the output, anything else replaces it.
        prepend: go before the hooks that are on the module now, not after them.
        with_kwargs: hand the hook the keyword arguments too.
        always_call: run the hook also when the call raised (KeyboardInterrupt included), then with None for an
            output that there is not. It cannot swallow the error; an error of its own becomes a warning.
        unknown: there are no other options; one is refused.

    Returns:
        A handle: `remove()` takes the hook off, and so does the end of `with handle:`.

    Raises:
        HookTypeError: `module` is no module, `hook` cannot be called like that, or there is no such option.
        HookRefusedError: the module cannot be hooked (TorchScript).
    """
    if unknown:
        refuse_options("register_forward_hook", unknown, ("prepend", "with_kwargs", "always_call"))
    parameters = ("module", "args", "kwargs", "output") if with_kwargs else ("module", "args", "output")
    check_hook(hook, parameters)
    return attach(module, Hook(AFTER, hook, KWARGS if with_kwargs else ARGS, always=always_call, prepend=prepend))
