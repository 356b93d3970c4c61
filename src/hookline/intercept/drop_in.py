"""PyTorch's registration functions, with the module first and the traps mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch import nn

from hookline.core import AFTER, ARGS, BEFORE, INPUT_GRADIENT, KWARGS, OUTPUT_GRADIENT, Handle, Hook
from hookline.errors import HookRefusedError
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


def register_full_backward_pre_hook(
    module: nn.Module, hook: Callable[..., Any], prepend: bool = False, **unknown: NoReturn
) -> Handle:
    """Run `hook` each time before the backward pass goes through `module`: the torch.nn.Module method, mended.

    Args:
        module: the module whose calls are caught.
        hook: called as `hook(module, grad_output)`: a tuple with a gradient for each entry of the output (of a dict or
            dataclass: for each of its values), None for one that is not used. Nested entries keep their structure.
            None keeps them; a tuple of that length replaces them, where None keeps one; so does a tensor, if there is
            one entry.
        prepend: go before the hooks that are on the module now, not after them.
        unknown: there are no other options; one is refused.

    Returns:
        A handle: `remove()` takes the hook off, also between forward and backward.

    Raises:
        HookTypeError: `module` is no module, `hook` cannot be called like that, or there is no such option.
        HookRefusedError: the module cannot be hooked; at call time, where its gradients cannot be seen.
        HookResultError: in the backward pass, when the hook returned something that does not fit.
    """
    if unknown:
        refuse_options("register_full_backward_pre_hook", unknown, ("prepend",))
    check_hook(hook, ("module", "grad_output"))
    return attach(module, Hook(OUTPUT_GRADIENT, hook, ARGS, prepend=prepend))


def register_full_backward_hook(
    module: nn.Module, hook: Callable[..., Any], prepend: bool = False, **unknown: NoReturn
) -> Handle:
    """Run `hook` each time the gradients of the inputs of `module` are known: the torch.nn.Module method, mended.

    It leaves the forward pass as it is, works on modules that change their input in place, and sees tensors in any
    structure. The gradients of the inputs are those by way of this module alone, not by way of others that use the
    same tensors.

    Args:
        module: the module whose calls are caught.
        hook: called as `hook(module, grad_input, grad_output)`: tuples with a gradient for each argument (those by
            name come last) and for each entry of the output; None for what is no tensor or gets none. A tensor
            that comes in twice has the whole of its gradient in both places. A returned tuple of the length of
            `grad_input` replaces it, where None keeps one; so does a tensor, if there is one argument.
            If no input gets a gradient, it is called when those of the module's own parameters are there.
        prepend: go before the hooks that are on the module now, not after them.
        unknown: there are no other options; one is refused.

    Returns and raises as `register_full_backward_pre_hook`.
    """
    if unknown:
        refuse_options("register_full_backward_hook", unknown, ("prepend",))
    check_hook(hook, ("module", "grad_input", "grad_output"))
    return attach(module, Hook(INPUT_GRADIENT, hook, ARGS, prepend=prepend))


def register_backward_hook(module: nn.Module, hook: Callable[..., Any]) -> NoReturn:  # noqa: ARG001 - torch's signature
    """Refuse, and say what to use: PyTorch's own reports the gradients of the module's last operation.

    Raises:
        HookRefusedError: always.
    """
    raise HookRefusedError(
        f"register_backward_hook is not offered: torch's own gives {type(module).__name__} the gradients of the last "
        "operation inside it, not those of the module's inputs. Use hookline.register_full_backward_hook(module, "
        "hook), with the same hook(module, grad_input, grad_output), or hookline.Hooks(model).gradient(where, hook)."
    )
