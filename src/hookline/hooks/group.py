"""A named group of hooks on one model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal

from torch import nn

from hookline.address import Target, select
from hookline.core import AFTER, AFTER_BACKWARD, AROUND, BEFORE, OUTPUT_GRADIENT
from hookline.core.site import registration
from hookline.errors import AddressError, HookTypeError, NeverFiredError, NeverFiredWarning
from hookline.hooks.never_fired import why_never_fired, why_no_gradient
from hookline.hooks.registration import Registration
from hookline.hooks.report import HooksReport
from hookline.hooks.scope import Scope
from hookline.hooks.unscaled import unscaled
from hookline.intercept.expected import check_hook
from hookline.intercept.hookable import check_module


class Hooks:
    """Hooks on the modules of one model, named by address, that go together.

    ```python
    with hookline.Hooks(model) as hooks:
        hooks.after("layer3", lambda call: print(call.path, call.output.shape))
        model(x)
    ```

    At the end of the `with` block all of them are taken off, also on an error, and each that never ran is reported
    with the reason where it can be known. Hooks run from the moment they are registered; without `with`, call
    `remove()`.

    Args:
        model: the module whose submodules the addresses name.
        scope: "model": hooks see every call. "context": only those made in the thread or asyncio task that made
            the group (and in tasks started from it).
        strict: a hook that never ran is a `NeverFiredError` at the end of the block, not a `NeverFiredWarning`.

    Raises:
        HookTypeError: `model` is no module, or `scope` is neither of the two.
    """

    def __init__(self, model: nn.Module, *, scope: Literal["model", "context"] = "model", strict: bool = False) -> None:
        check_module(model)
        if scope not in ("model", "context"):
            raise HookTypeError(f"scope is 'model' or 'context', got {scope!r}.")
        self.model = model
        self.scope = scope
        self.strict = strict
        self._registrations: list[Registration] = []
        self._ever: list[Registration] = []  # also those that were removed: the report is read after the block
        self._scope = Scope() if scope == "context" else None
        if self._scope:
            self._scope.enter()

    def before(self, where: Any, function: Callable[..., Any], *, priority: float = 0) -> Registration:
        """Run `function(call)` before each call of the modules that `where` names.

        It may set `call.args`, `call.kwargs` or `call.arguments["name"]`. A returned value replaces as with PyTorch:
        None keeps, a tuple is the new args, anything else the single new argument; when the address names one
        argument (`"encoder:input.mask"`), the returned value replaces that one.

        Args:
            where: an address, module, class, compiled regex, predicate `(path, module) -> bool`, or a list of these.
            function: called as `function(call)`, see `Call`.
            priority: hooks with a higher one run earlier; equal ones in the order of registration.

        Raises:
            NoMatchError: an address, or one part of a list, names nothing in the model. Then no hook was put on.
            AddressError: the address is misspelt, or names an output.
            HookTypeError: `function` cannot be called like that.
            HookRefusedError: one of the modules cannot be hooked.
        """
        return self._register(BEFORE, where, function, ("call",), priority)

    def after(self, where: Any, function: Callable[..., Any], *, priority: float = 0) -> Registration:
        """Run `function(call)` after each call of the modules that `where` names.

        It may set `call.output`; a returned value replaces the output, or the part of it that the address names
        (`"encoder:output.0.hidden"`); None keeps it. With an address that names an input, `call.value` is that, to
        look at. Arguments and errors are those of `before`.
        """
        return self._register(AFTER, where, function, ("call",), priority)

    def around(self, where: Any, function: Callable[..., Any], *, priority: float = 0) -> Registration:
        """Run `function(call, proceed)` in place of each call of the modules that `where` names.

        `proceed()` makes the call with `call.args` and `call.kwargs` as they are then, sets `call.output` and
        returns it. The function may skip it, repeat it, time it, or wrap it in a context such as `torch.no_grad()`.
        What it returns is the output; None keeps `call.output`. Hooks before and after run outside of it, once.
        Arguments and errors are those of `before`.
        """
        return self._register(AROUND, where, function, ("call", "proceed"), priority)

    def gradient(
        self, where: Any, function: Callable[..., Any], *, priority: float = 0, unscale: Any = None
    ) -> Registration:
        """Run `function(call)` on each gradient that arrives at what `where` names, in the backward pass.

        `call.grad` is the gradient of one tensor, `call.leaf` the address of that tensor, `call.number` the number of
        the forward call (see `GradientCall`). A returned tensor, or one assigned to `call.grad`, goes on in its place;
        None keeps it. `"layer4"` and `"layer4:output.grad"` mean the tensors of the output: the gradient of
        the tensor, whoever uses it behind the module. `"layer4:input.grad"` means those of the arguments: the gradient
        by way of this module alone. A part (`"block:output.1.grad"`, `"attn:input.mask.grad"`) means that one.

        Args:
            where: as for `before`.
            function: called as `function(call)` for each tensor, in each backward pass.
            priority: hooks with a higher one run earlier; equal ones in the order of registration.
            unscale: a `torch.amp.GradScaler`, or a number: the hook sees the gradient divided by its scale, and what
                it returns is multiplied by it.

        Raises:
            NoMatchError, AddressError, HookTypeError, HookRefusedError: as for `before`.
            HookResultError: in the backward pass, for a gradient of another shape, dtype or device.
        """
        if unscale is not None:
            function = unscaled(function, unscale)
        return self._register(OUTPUT_GRADIENT, where, function, ("call",), priority)

    def after_backward(self, where: Any, function: Callable[..., Any], *, priority: float = 0) -> Registration:
        """Run `function(call)` when the backward pass through a module is done, its parameters' gradients included.

        `call.parameter_grads` has by name what this pass gave each parameter (see `BackwardCall`). It comes once for
        each forward call of the module in each backward pass. Arguments and errors are those of `before`; an
        address that names a side or a part is an `AddressError`.
        """
        return self._register(AFTER_BACKWARD, where, function, ("call",), priority)

    def _register(
        self, phase: int, where: Any, function: Callable[..., Any], parameters: tuple[str, ...], priority: float
    ) -> Registration:
        check_hook(function, parameters)
        selection = select(self.model, where)
        for target in selection:
            _check_address(target, phase)
        made = Registration(self, phase, _spelt(where), function, selection, priority)
        with registration:
            self._registrations.append(made)
            self._ever.append(made)
        try:
            made.enable()
        except BaseException:
            self._forget(made)
            self._ever.remove(made)
            raise
        return made

    def _forget(self, made: Registration) -> None:
        with registration:
            self._registrations = [other for other in self._registrations if other is not made]

    def disable(self) -> None:
        """Take all hooks of the group off for now; the modules are as if they had never been hooked."""
        for made in self._registrations:
            made.disable()

    def enable(self) -> None:
        """Put all hooks of the group on again, each in its old place."""
        for made in self._registrations:
            made.enable()

    def remove(self) -> None:
        """Take all hooks of the group off for good; calling this again does nothing."""
        self.disable()
        self._registrations = []
        if self._scope:
            self._scope.leave()

    def report(self) -> HooksReport:
        """Return what each hook matched, how often it fired at each site, and the time spent in it."""
        return HooksReport.of(self._ever)

    def __enter__(self) -> Hooks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        silent = [] if error is not None else self._never_fired()
        self.remove()
        if silent:
            text = "\n".join(silent)
            if self.strict:
                raise NeverFiredError(text)
            warnings.warn(text, NeverFiredWarning, stacklevel=2)

    def _never_fired(self) -> list[str]:
        """Return a sentence for each hook that matched a module and did not run there."""
        ran = any(record.fired or record.compiled for made in self._registrations for record in made)
        return [
            f"the hook {made.kind} {str(record.address)!r} never ran: "
            + (
                why_no_gradient(record.unwatched)
                if record.unwatched is not None
                else why_never_fired(self.model, record.target, others_ran=ran)
            )
            for made in self._registrations
            for record in made
            if not (record.fired or record.compiled)
        ]

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._registrations)

    def __len__(self) -> int:
        return len(self._registrations)

    def __contains__(self, made: object) -> bool:
        return any(other is made for other in self._registrations)

    def __repr__(self) -> str:
        lines = [f"<Hooks on {type(self.model).__name__}, scope {self.scope}, {len(self)} hooks>"]
        return "\n".join([*lines, *(f"  {made!r}" for made in self._registrations)])


def _check_address(target: Target, phase: int) -> None:
    """Raise when the address names something that a hook of this phase cannot have."""
    address = target.address
    if address.grad and phase < OUTPUT_GRADIENT:
        raise AddressError(
            f"{address} names a gradient, which is not known when the module runs: use hooks.gradient(...)."
        )
    if address.function is not None and phase == AFTER_BACKWARD:
        raise AddressError(f"{address} names a function, which has no parameters: use the path of the module.")
    if phase == BEFORE and address.side == "output":
        raise AddressError(f"{address} names an output, which is not there before the call: use hooks.after(...).")
    if phase == AFTER_BACKWARD and (address.side or address.part):
        raise AddressError(
            f"{address} names a side of the call; this hook is told of the module as a whole: use the path."
        )
    if phase == AROUND and (address.side or address.part):
        raise AddressError(
            f"{address} names a side of the call, and an around hook has both: use the path alone, "
            "and call.args, call.arguments and call.output in the hook."
        )


def _spelt(where: Any) -> str:
    """Return how the user said where, for reports."""
    if isinstance(where, str):
        return where
    if isinstance(where, (list, tuple, set, frozenset)):
        return ", ".join(_spelt(each) for each in where)
    if isinstance(where, nn.Module):
        return f"<{type(where).__name__}>"
    return getattr(where, "pattern", None) or getattr(where, "__qualname__", None) or str(where)
