"""Edits on a model, from now until they are removed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, overload

from torch import nn

from hookline.address import Target, select
from hookline.editing.change import Change
from hookline.editing.conflict import check_conflicts
from hookline.editing.operations import bound
from hookline.editing.plan import EditPlan, What
from hookline.errors import AddressError, EditError, NeverFiredError, NeverFiredWarning
from hookline.hooks import Hooks
from hookline.intercept.hookable import check_module


@overload
def edit(
    model: nn.Module,
    where: Mapping[Any, What] | EditPlan,
    /,
    *,
    rows: Any = ...,
    calls: Any = ...,
    when: Callable[[Any], Any] | None = ...,
    scope: Literal["model", "context"] = ...,
    strict: bool = ...,
    allow_overlap: bool = ...,
    force: bool = ...,
) -> Edits: ...
@overload
def edit(
    model: nn.Module,
    where: Any,
    what: What,
    /,
    *,
    rows: Any = ...,
    calls: Any = ...,
    when: Callable[[Any], Any] | None = ...,
    scope: Literal["model", "context"] = ...,
    strict: bool = ...,
    allow_overlap: bool = ...,
    force: bool = ...,
) -> Edits: ...
def edit(
    model: nn.Module,
    where: Any,
    what: What = None,
    /,
    *,
    rows: Any = None,
    calls: Any = None,
    when: Callable[[Any], Any] | None = None,
    scope: Literal["model", "context"] = "model",
    strict: bool = True,
    allow_overlap: bool = False,
    force: bool = False,
) -> Edits:
    """Change what flows at some places of a model, until the end of the `with` block or `remove()`.

    ```python
    with hookline.edit(model, {"layer3": hookline.zero[:, 7], "fc:input": hookline.scale(2.0)}):
        model(x)
    with hookline.edit(model, "layer3", lambda value: value.relu(), rows=[0, 2]):
        model(x)
    ```

    Edits apply in the order given. None writes to the model's own tensors; the new value has the shape, dtype and
    device of the old, and gradients flow through it as its formula says.

    Args:
        model: the module whose submodules the addresses name.
        where: an address, module, class, ...; or a mapping from these to what; or an `EditPlan`. A module means its
            output. An address that names several tensors takes a function only; name one of them.
        what: an operation, a function of the value that returns the new one, or a list of these.
        rows: the samples of the batch (axis 0) to change: an int, slice, list or bool tensor.
        calls: the calls of a place to change, counted from 0: for recurrent modules and steps of a generation.
        when: a function of the `Call`; the edit applies where it returns something true.
        scope: "context" for the calls of this thread or asyncio task only.
        strict: an edit that was never applied is a `NeverFiredError` at the end of the block, since a result without it
            would be taken for its effect; False makes it a warning.
        allow_overlap: let several edits overwrite the same elements; the last one wins.
        force: run a plan that was made for another model.

    Raises:
        NoMatchError, AddressError: as for `hookline.Hooks`. Then nothing was hooked.
        HookTypeError: `what`, or a limit, is nothing of the kind.
        EditError: two edits overwrite the same elements; at run time, a value that an edit does not fit.
        PlanError: the plan was made for another model; the message lists where they differ.
    """
    check_module(model)
    if not isinstance(where, EditPlan):
        plan = EditPlan(where if isinstance(where, Mapping) else {where: what}, rows=rows, calls=calls, when=when)
    elif rows is None and calls is None and when is None:
        plan = where
    else:
        raise EditError("rows=, calls= and when= belong to the plan: EditPlan({...}, rows=...).")
    if not force:
        plan.check(model)
    return Edits(model, plan, scope=scope, strict=strict, allow_overlap=allow_overlap)


class Edits:
    """Edits that are on a model: a context manager that takes them off.

    Attributes:
        plan: what is done.
    """

    def __init__(
        self,
        model: nn.Module,
        plan: EditPlan,
        *,
        scope: Literal["model", "context"],
        strict: bool,
        allow_overlap: bool,
    ) -> None:
        self.plan = plan
        self._strict = strict
        sites = [(entry, target) for entry in plan for target in select(model, entry.where)]
        for _, target in sites:
            if target.address.grad:
                raise AddressError(f"{target} names a gradient: use Hooks.gradient to change it.")
        if not allow_overlap:
            check_conflicts(sites)
        changes = [Change(entry, bound(entry.operation, _address(target)), target) for entry, target in sites]
        self._changes = changes
        self._hooks = Hooks(model, scope=scope, strict=strict)
        try:
            for change in changes:
                register = self._hooks.before if change.target.address.side == "input" else self._hooks.after
                register(str(change.target), change)
        except BaseException:
            self._hooks.remove()
            raise

    def remove(self) -> None:
        """Take the edits off; calling this again does nothing."""
        self._hooks.remove()

    def __enter__(self) -> Edits:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)
        idle = [change for change in self._changes if change.is_idle] if error is None else []
        if idle:
            text = "\n".join(change.why_idle() for change in idle)
            if self._strict:
                raise NeverFiredError(text)
            warnings.warn(text, NeverFiredWarning, stacklevel=2)

    def describe(self) -> str:
        """Return the edits in the order in which they are applied, each with the places that it matched."""
        return "\n".join(f"{change.target}: {change.entry.operation}" for change in self._changes)

    def __repr__(self) -> str:
        return f"<edits>\n{self.plan.describe()}"


def _address(target: Target) -> str:
    """Return the address under which features have what an edit changes."""
    return str(target)
