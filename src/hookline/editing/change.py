"""One edit at one place: the hook that makes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hookline.address import Target, leaves, map_leaves
from hookline.core import Call
from hookline.editing.operation import Operation
from hookline.editing.plan import Entry
from hookline.editing.rows import of_rows, with_rows
from hookline.errors import EditError
from hookline.intercept.checkpointing import note_call, repeated_call


class Change:
    """Changes what the address names, in the calls that are meant.

    Attributes:
        entry: the edit.
        target: the place.
        applied: whether it has changed anything yet.
    """

    def __init__(self, entry: Entry, operation: Operation, target: Target) -> None:
        self.entry = entry
        self.target = target
        self.applied = False
        self._operation = operation

    def __call__(self, call: Call) -> None:
        """Be the hook."""
        entry = self.entry
        known: list[int] = []

        def number() -> int:
            # Asked once a call: activation checkpointing asks as often again, in the same order.
            if not known:
                known.append(self._number(call))
            return known[0]

        if entry.calls is not None and number() not in entry.calls:
            return
        if entry.when is not None and not entry.when(call):
            return
        try:
            call.value = self._new(call.value, number)
        except EditError as error:
            raise type(error)(f"{self.target}: {error}") from None
        self.applied = True

    @property
    def is_idle(self) -> bool:
        """Whether the place was called, and none of its calls was meant."""
        return not self.applied

    def why_idle(self) -> str:
        """Say why it was never applied."""
        entry = self.entry
        limit = f"calls={sorted(entry.calls)}" if entry.calls is not None else "when="
        return (
            f"the edit of {str(self.target)!r}, {self._operation}, was never applied: the place was called, and "
            f"{limit} left out each of its calls."
        )

    def _number(self, call: Call) -> int:
        if torch.compiler.is_dynamo_compiling():
            return call.number
        if call.recomputed:
            return repeated_call(self, call.number)
        note_call(self, call.number)
        return call.number

    def _new(self, value: Any, number: Any) -> Any:
        if isinstance(value, Tensor):
            return self._changed(value, number)
        operation = self._operation
        if operation.function is not None and operation.index is None and self.entry.rows is None:
            new = operation.function(value)
            if new is None:
                raise EditError(f"{operation} returned None: an edit returns the new value.")
            return new
        tensors = [part for part, leaf in leaves(value) if isinstance(leaf, Tensor)]
        if len(tensors) != 1:
            names = ", ".join(f"'{self._part_address(part)}'" for part in tensors[:4])
            raise EditError(
                f"expected one tensor, got a {type(value).__name__} with {len(tensors)}"
                + (f"; name one of them: {names}." if names else "; arguments by name are named: ':input.mask'.")
            )
        return map_leaves(lambda _, leaf: self._changed(leaf, number) if isinstance(leaf, Tensor) else leaf, value)

    def _part_address(self, part: tuple[str | int, ...]) -> str:
        side = self.target.address.side or "output"
        given = str(self.target).removesuffix(f":{side}")
        return f"{given}.{'.'.join(map(str, part))}" if ":" in given else f"{given}:{side}.{'.'.join(map(str, part))}"

    def _changed(self, value: Tensor, number: Any) -> Tensor:
        rows = self.entry.rows
        if rows is None:
            return self._operation.new(value, number)
        return with_rows(value, rows, self._operation.new(of_rows(value, rows), number))
