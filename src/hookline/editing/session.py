"""Edits on a model, from now until they are removed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

from torch import nn

from hookline.address import Selection, Target, select
from hookline.core import AFTER, ARGS, BEFORE, CALL, Hook
from hookline.editing.change import Change, Place
from hookline.editing.conflict import check_conflicts
from hookline.editing.operations import bound
from hookline.editing.plan import EditPlan, Entry, What
from hookline.errors import AddressError, EditError, NeverFiredError, NeverFiredWarning
from hookline.hooks.never_fired import why_never_fired
from hookline.hooks.record import Record
from hookline.hooks.scope import Scope
from hookline.intercept.hookable import check_module
from hookline.intercept.placing import place_all


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
        plan = EditPlan(where if isinstance(where, Mapping) else [(where, what)], rows=rows, calls=calls, when=when)
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
        model: the model.
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
        sites = _sites_of(model, plan)
        for _, target in sites:
            if target.address.grad:
                raise AddressError(f"{target} names a gradient: use Hooks.gradient to change it.")
        if not allow_overlap:
            check_conflicts(sites)
        self.model = model
        self._places = places_of(sites)
        self._scope = Scope() if scope == "context" else None
        if self._scope:
            self._scope.enter()
        try:
            self._handles = place_all((place.target, self._hook(place)) for place in self._places)
        except BaseException:
            self._leave_scope()
            raise

    def remove(self) -> None:
        """Take the edits off; calling this again does nothing."""
        for handle in self._handles:
            handle.remove()
        self._leave_scope()

    def _hook(self, place: Place) -> Hook:
        applies = self._scope.applies if self._scope else None
        before = place.target.address.side == "input"
        if place.is_plain and not before:  # the usual case, at the least cost
            return Hook(AFTER, place.after, ARGS, applies=applies, about=Record(place.target, place))
        return Hook(BEFORE if before else AFTER, place, CALL, applies=applies, about=Record(place.target, place))

    def _leave_scope(self) -> None:
        if self._scope:
            self._scope.leave()
            self._scope = None

    def __enter__(self) -> Edits:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        silent = [] if error is not None else self._silent()
        self.remove()
        if silent:
            text = "\n".join(silent)
            if self._strict:
                raise NeverFiredError(text)
            warnings.warn(text, NeverFiredWarning, stacklevel=2)

    def _silent(self) -> list[str]:
        """Return a sentence for each edit that was never applied."""
        ran = any(place.called for place in self._places)
        sentences = []
        for place in self._places:
            if not place.called:
                why = why_never_fired(self.model, place.target, others_ran=ran)
                sentences.append(f"the edit of {str(place.target)!r} was never applied: {why}")
            sentences += filter(None, [change.why_idle(place.target) for change in place.changes])
        return sentences

    def describe(self) -> str:
        """Return the edits in the order in which they are applied, each with the places that it matched."""
        return "\n".join(
            f"{place.target}: {change.entry.operation}" for place in self._places for change in place.changes
        )

    def __repr__(self) -> str:
        return f"<edits>\n{self.plan.describe()}"


def _sites_of(model: nn.Module, plan: EditPlan) -> list[tuple[Entry, Target]]:
    """Return each edit with each place that it names; an address that many edits have is looked for once."""
    known: dict[str, Selection] = {}
    sites = []
    for entry in plan:
        selection = known.get(entry.where) if isinstance(entry.where, str) else None
        if selection is None:
            selection = select(model, entry.where)
            if isinstance(entry.where, str):
                known[entry.where] = selection
        sites += [(entry, target) for target in selection]
    return sites


def places_of(sites: list[tuple[Entry, Target]]) -> list[Place]:
    """Return the places with their edits in order: those that follow each other at one place go together."""
    places: list[Place] = []
    for entry, target in sites:
        change = Change(entry, bound(entry.operation, str(target)))
        last = next((place for place in reversed(places) if place.target.module is target.module), None)
        if last is not None and last.target.address == target.address:
            places[places.index(last)] = Place(target, (*last.changes, change))
        else:
            places.append(Place(target, (change,)))
    return places
