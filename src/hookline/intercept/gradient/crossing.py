"""The forward side of hooks on gradients: what is done to the arguments and the output of a call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch

from hookline.core import INPUT_GRADIENT, OUTPUT_GRADIENT, Site, watching
from hookline.core.numbering import Calls, Repeated
from hookline.errors import HookRefusedError
from hookline.intercept.checkpointing import is_thrown_away, note_call, repeated_call
from hookline.intercept.gradient.awaited import nodes_of
from hookline.intercept.gradient.exchange import Exchange, exchanged
from hookline.intercept.gradient.isolation import isolate, rebase
from hookline.intercept.gradient.outputs import Origin, hooked_output, hooked_outputs
from hookline.intercept.gradient.places import ONE_ARGUMENT, found_in_arguments, found_in_output
from hookline.intercept.gradient.plan import Plan
from hookline.intercept.gradient.wanted import signature_at, wanted_of_arguments, wanted_of_output
from hookline.intercept.gradient.watched import Watched
from hookline.intercept.undisturbed import undisturbed

_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]
_NO_AUTOGRAD = "the module ran without autograd (torch.no_grad or torch.inference_mode)"
_tracing = torch._C._get_tracing_state


@undisturbed
def watch(
    site: Site, module: nn.Module, args: _Args, kwargs: _Kwargs, number: int
) -> tuple[_Args, _Kwargs, Crossing | None]:
    """Return the arguments for the module, and what its output has to go through."""
    plan = site.plan
    if plan is None:
        plan = site.plan = Plan(site.gradient)
    if site.calls is not None:
        number = _numbered(site.calls, number)
    if not torch.is_grad_enabled():
        plan.leave_word(_NO_AUTOGRAD, _NO_AUTOGRAD)
        return args, kwargs, None
    if isinstance(number, Repeated) and is_thrown_away():
        return args, kwargs, None
    _refuse(module)
    crossing = Crossing(Watched(plan, module, number))
    args, kwargs = crossing.enter(args, kwargs)
    return args, kwargs, crossing


watching.watch = watch


class Crossing:
    """One call's way into the module and out again."""

    __slots__ = ("_exchange", "_isolated", "_tensors", "_versions", "_watched")

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._isolated: list[Tensor] = []
        self._exchange: Exchange | None = None

    def enter(self, args: _Args, kwargs: _Kwargs) -> tuple[_Args, _Kwargs]:
        """Return the arguments, with each tensor set apart whose gradient a hook wants."""
        watched = self._watched
        if len(args) == 1 and not kwargs and isinstance(args[0], Tensor) and args[0].requires_grad:  # the usual case
            watched.inputs, self._tensors = ONE_ARGUMENT, [args[0]]
        else:
            watched.inputs, self._tensors = found_in_arguments(args, kwargs)
        self._versions = [tensor._version for tensor in self._tensors]
        if not watched.plan.isolates:
            return args, kwargs
        for hook in watched.plan.parts:
            if hook.phase == INPUT_GRADIENT:
                signature = signature_at(hook.about, watched.module)
                watched.wanted[hook] = wanted_of_arguments(signature, hook.about.address, args, kwargs, self._tensors)
        if not self._tensors:
            return args, kwargs
        self._isolated = isolate(watched.inputs_received, self._tensors)
        if watched.inputs is ONE_ARGUMENT:
            return (self._isolated[0],), kwargs
        self._exchange = exchange = Exchange(self._tensors, self._isolated)
        return tuple(map(exchange, args)), {name: exchange(value) for name, value in kwargs.items()}

    @undisturbed
    def __call__(self, output: Any) -> Any:
        """Return the output for the caller, with the hooks put on the gradients of its tensors."""
        if self._isolated:
            output = self._with_changes(output)
        watched = self._watched
        plan = watched.plan
        watched.outputs, tensors = found_in_output(output)
        for hook in plan.parts:
            if hook.phase == OUTPUT_GRADIENT:
                watched.wanted[hook] = wanted_of_output(hook.about.address, output, tensors)
        if plan.tells:
            plan.leave_word(
                "" if tensors else "no tensor in its output requires a gradient",
                "" if tensors and self._tensors else "no tensor in its arguments requires a gradient",
            )
        return exchanged(output, tensors, self._hooked(tensors)) if tensors and plan.looks else output

    def _hooked(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the tensors of the output with our hooks on them, or others in their places."""
        watched = self._watched
        plan = watched.plan
        if plan.at_end or (plan.waits and not self._isolated):
            watched.parameters = nodes_of(watched.module)
            watched.node = self._isolated[0].grad_fn if self._isolated else None
        if len(tensors) == 1:  # the usual case: the module made the tensor itself
            root = tensors[0]._base if tensors[0]._is_view() else tensors[0]
            if not any(root is given or root is given._base for given in self._isolated or self._tensors):
                return [hooked_output(watched, 0, tensors[0])]
        return hooked_outputs(watched, tensors, self._origins())

    def _origins(self) -> dict[int, Origin]:
        """Return the arguments whose memory the output may share, by the id of the root of what the module got."""
        origins: dict[int, Origin] = {}
        for place, (tensor, version) in enumerate(zip(self._tensors, self._versions, strict=True)):
            changed = tensor._version != version
            if not self._isolated:
                root = tensor._base if tensor._is_view() and tensor._base is not None else tensor
                origins[id(root)] = Origin(root, None, None, None if changed else tensor)
            elif changed:  # its past is that of the change
                origins[id(self._isolated[place])] = Origin(tensor, None, None, None)
            else:
                isolated = self._isolated[place]
                origins[id(isolated)] = Origin(tensor, isolated, place, isolated)
        return origins

    def _with_changes(self, output: Any) -> Any:
        """Let the caller's tensors and containers that the module changed in place have the changes.

        Such tensors come back as themselves if the module returns them.
        """
        back: list[tuple[Tensor, Tensor]] = []
        for tensor, isolated, version in zip(self._tensors, self._isolated, self._versions, strict=True):
            if tensor._version != version:
                rebase(tensor, isolated)
                back.append((isolated, tensor))
        if self._exchange is not None:
            self._exchange.undo()
        return exchanged(output, [old for old, _ in back], [new for _, new in back]) if back else output


def _numbered(calls: Calls, number: int) -> int:
    """Return the number of the call; for one that activation checkpointing repeats, that of the call it repeats."""
    if number < 0:  # compiled code was left to come here
        number = calls.take()
    if isinstance(number, Repeated):
        return repeated_call(calls, number)
    note_call(calls, number)
    return number


def _refuse(module: nn.Module) -> None:
    """Raise where gradients would silently pass by the hooks."""
    if _tracing() or torch.compiler.is_exporting():
        name = type(module).__name__
        raise HookRefusedError(
            f"{name} has hooks on gradients, which an exported or traced program cannot have: remove them first."
        )
    if _functorch.maybe_current_level() is not None:
        name = type(module).__name__
        raise HookRefusedError(
            f"{name} has hooks on gradients, and runs inside a transform of torch.func (grad, vmap, jvp ...), which "
            "does not call them. Use torch.autograd.grad, or remove the hooks."
        )
