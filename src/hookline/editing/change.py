"""The edits of one place: the hook that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hookline.address import Target, leaves, map_leaves
from hookline.core import BEFORE, Call
from hookline.editing.operation import Operation
from hookline.editing.plan import Entry
from hookline.editing.rows import of_rows, with_rows
from hookline.errors import EditError
from hookline.intercept.checkpointing import note_call, repeated_call


class Change:
    """One edit at one place.

    Attributes:
        entry: the edit.
        operation: what it does, with all values that it takes from elsewhere.
        called: whether the place was called yet.
        applied: whether it has changed anything yet.
    """

    def __init__(self, entry: Entry, operation: Operation) -> None:
        self.entry = entry
        self.operation = operation
        self.called = False
        self.applied = False
        self._limited = entry.calls is not None or entry.when is not None

    @property
    def is_plain(self) -> bool:
        """Whether it is the same for every call."""
        return not self._limited and not self.operation.counts

    def made(self, value: Any, call: Call | None, number: Callable[[], int]) -> Any:
        """Return the changed value, or the value itself if this call is not meant."""
        self.called = True
        if self._limited and not self._is_meant(call, number):
            return value
        self.applied = True
        if isinstance(value, Tensor):
            return self._of_tensor(value, number)
        function = self.operation.function
        if function is not None and self.operation.index is None and self.entry.rows is None:
            new = function(value)
            if new is None:
                raise EditError(f"{self.operation} returned None: an edit returns the new value.")
            return new
        return map_leaves(lambda _, leaf: self._of_tensor(leaf, number) if isinstance(leaf, Tensor) else leaf, value)

    def takes(self, value: Any) -> bool:
        """Return whether it can change a value that is not one tensor: a function can, or there is just one in it."""
        if self.operation.function is not None and self.operation.index is None and self.entry.rows is None:
            return True
        return sum(isinstance(leaf, Tensor) for _, leaf in leaves(value)) == 1

    def why_idle(self, target: Target) -> str | None:
        """Say why it was never applied although the place was called; None if that is not so."""
        if self.applied or not self.called:
            return None
        entry = self.entry
        limit = f"calls={sorted(entry.calls)}" if entry.calls is not None else "when="
        return (
            f"the edit of {str(target)!r}, {self.operation}, was never applied: the place was called, and {limit} left "
            "out each of its calls."
        )

    def _is_meant(self, call: Call | None, number: Callable[[], int]) -> bool:
        entry = self.entry
        if entry.calls is not None and number() not in entry.calls:
            return False
        return entry.when is None or bool(entry.when(call))

    def _of_tensor(self, value: Tensor, number: Callable[[], int]) -> Tensor:
        rows = self.entry.rows
        if rows is None:
            return self.operation.new(value, number)

        def pick(captured: Tensor) -> Tensor:
            """Return the same rows of what was captured of a batch of that size."""
            same = captured.dim() == value.dim() and captured.shape[0] == value.shape[0]
            return of_rows(captured, rows) if same else captured

        return with_rows(value, rows, self.operation.new(of_rows(value, rows), number, pick))


def _nobody_asks() -> int:
    raise AssertionError("the operation is the same for every call")


class Place:
    """Makes all edits of one place, in their order, and writes the result back once.

    Attributes:
        target: the place.
        changes: the edits.
        called: whether the place was called yet.
        is_plain: whether the edits are of a whole value, and the same for every call.
    """

    def __init__(self, target: Target, changes: Sequence[Change]) -> None:
        self.target = target
        self.changes = tuple(changes)
        self.called = False
        self.is_plain = not target.address.part and all(change.is_plain for change in self.changes)
        alone = self.is_plain and len(self.changes) == 1 and self.changes[0].entry.rows is None
        self._only = self.changes[0].operation if alone else None

    def after(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        """Be the hook for edits of an output as a whole that are the same for every call."""
        self.called = True
        try:
            if self._only is not None and isinstance(output, Tensor):
                return self._only.new(output, _nobody_asks)
            return self._changed(output, None, _nobody_asks)
        except EditError as error:
            raise self._with_address(error) from None

    def __call__(self, call: Call) -> None:
        """Be the hook for edits of any kind."""
        self.called = True
        known: list[int] = []

        def number() -> int:
            # Found once a call: activation checkpointing asks as often again, in the same order.
            if not known:
                known.append(self._number(call))
            return known[0]

        try:
            if not self.target.address.part and call.hook.phase != BEFORE:
                call.output = self._changed(call.output, call, number)
            elif not self.target.address.part and len(call.args) == 1:
                # What is meant is the argument, not the tuple that it comes in.
                call.args = (self._changed(call.args[0], call, number),)
            else:
                call.value = self._changed(call.value, call, number)
        except EditError as error:
            raise self._with_address(error) from None

    def _changed(self, value: Any, call: Call | None, number: Callable[[], int]) -> Any:
        for change in self.changes:
            if not isinstance(value, Tensor) and not change.takes(value):
                raise EditError(self._several(value))
            value = change.made(value, call, number)
        return value

    def _with_address(self, error: EditError) -> EditError:
        return type(error)(f"{self.target}: {error}")

    def _number(self, call: Call) -> int:
        if torch.compiler.is_dynamo_compiling():
            return call.number
        if call.recomputed:
            return repeated_call(self, call.number)
        note_call(self, call.number)
        return call.number

    def _several(self, value: Any) -> str:
        tensors = [part for part, leaf in leaves(value) if isinstance(leaf, Tensor)]
        names = ", ".join(f"'{self._part_address(part)}'" for part in tensors[:4])
        return f"expected one tensor, got a {type(value).__name__} with {len(tensors)}" + (
            f"; name one of them: {names}." if names else "; arguments by name are named: ':input.mask'."
        )

    def _part_address(self, part: tuple[str | int, ...]) -> str:
        side = self.target.address.side or "output"
        given = str(self.target).removesuffix(f":{side}")
        dotted = ".".join(map(str, part))
        return f"{given}.{dotted}" if ":" in given else f"{given}:{side}.{dotted}"
