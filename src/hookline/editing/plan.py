"""Edits of a model's values, as data that can be shown, saved and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from hookline.core.hook import describe_function
from hookline.editing.operation import Operation
from hookline.editing.rows import checked_rows
from hookline.errors import HookTypeError

What = Any
"""An operation, a function of the value, or a list of these."""


@dataclass(frozen=True)
class Entry:
    """One edit.

    Attributes:
        where: an address, or another way of saying where.
        operation: what is done.
        rows: the samples of the batch that are changed: a slice, a list of ints or a bool tensor; None for all.
        calls: the calls of a place that are changed, by their numbers; None for all.
        when: asked for each call with the `Call`; None for always.
    """

    where: Any
    operation: Operation
    rows: Any = None
    calls: frozenset[int] | None = None
    when: Callable[[Any], Any] | None = None

    def __str__(self) -> str:
        limits = [
            f"rows {_short(self.rows)}" if self.rows is not None else "",
            f"calls {sorted(self.calls)}" if self.calls is not None else "",
            f"when {describe_function(self.when)}" if self.when is not None else "",
        ]
        where = self.where if isinstance(self.where, str) else getattr(self.where, "__qualname__", repr(self.where))
        shown = ", ".join(filter(None, limits))
        return f"{where:.60}: {self.operation}" + (f"  ({shown})" if shown else "")


class EditPlan(Sequence[Entry]):
    """Edits in the order in which they are applied.

    ```python
    plan = hookline.EditPlan({"layer3": hookline.zero[:, 7], "fc:input": hookline.scale(2.0)})
    with hookline.edit(model, plan):
        model(x)
    ```

    Args:
        edits: from where (an address, module, class, regex, predicate) to what: an operation, a function of the value,
            or a list of these; or a list of such pairs. Functions get the value that the address names, and return
            the new one.
        rows, calls, when: limit all edits of this plan, see `hookline.edit`.

    Raises:
        HookTypeError: an edit is nothing of the kind.
    """

    def __init__(
        self,
        edits: Mapping[Any, What] | Sequence[Entry | tuple[Any, What]] = (),
        *,
        rows: Any = None,
        calls: Any = None,
        when: Callable[[Any], Any] | None = None,
    ) -> None:
        limits = (checked_rows(rows), checked_calls(calls), _checked_when(when))
        entries: list[Entry] = []
        for edit in edits.items() if isinstance(edits, Mapping) else edits:
            if isinstance(edit, Entry):
                entries.append(edit)
            else:
                where, what = edit
                entries += [Entry(where, each, *limits) for each in operations_of(what)]
        self._entries = tuple(entries)
        self.structure: dict[str, Any] | None = None  # of the model that the plan was saved with

    def __getitem__(self, index: Any) -> Any:
        return EditPlan(self._entries[index]) if isinstance(index, slice) else self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __add__(self, other: EditPlan) -> EditPlan:
        return EditPlan([*self, *other])

    def describe(self) -> str:
        """Return the edits in the order in which they are applied, one a line."""
        return "\n".join(f"{number}. {entry}" for number, entry in enumerate(self._entries, start=1))

    def check(self, model: nn.Module) -> None:
        """Raise `PlanError` if the plan was saved with the structure of another model; it lists where they differ."""
        if self.structure is not None:
            from hookline.editing.plan_file import check_structure  # noqa: PLC0415

            check_structure(self.structure, model)

    def save(self, path: str | Path, *, model: nn.Module | None = None) -> None:
        """Write the plan to a JSON file, and its tensors to a safetensors file beside it.

        Args:
            path: of the JSON file; the other has the same name and ends in .safetensors.
            model: with it the file has the model's structure, and the plan runs on no other without `force=True`.

        Raises:
            PlanError: an edit cannot be saved, such as a function that cannot be imported; nothing is written then.
            MissingExtraError: there are tensors, and safetensors is not installed.
        """
        from hookline.editing.plan_file import save  # noqa: PLC0415 - needs an extra

        save(self, Path(path), model)

    @classmethod
    def load(cls, path: str | Path) -> EditPlan:
        """Return the plan of a file that `save` wrote.

        Raises:
            PlanError: the file is no plan, or its tensors are not there.
        """
        from hookline.editing.plan_file import load  # noqa: PLC0415

        return load(Path(path))

    def __repr__(self) -> str:
        return f"<EditPlan of {len(self)}>\n{self.describe()}" if self else "<EditPlan of 0>"


def operations_of(what: What) -> list[Operation]:
    """Return what is to be done as operations.

    Raises:
        HookTypeError: it is no operation, function, or list of these.
    """
    if isinstance(what, Operation):
        return [what]
    if isinstance(what, (list, tuple)):
        return [operation for each in what for operation in operations_of(each)]
    if callable(what):
        if getattr(what, "__module__", "") == "hookline.editing.operations":
            raise HookTypeError(f"{what.__name__} is an operation without its arguments: write {what.__name__}(...).")
        return [Operation("function", function=what)]
    raise HookTypeError(
        f"an edit is an operation such as hookline.zero or hookline.scale(2), or a function of the value; "
        f"got {type(what).__name__}: {what!r:.80}."
    )


def checked_calls(calls: Any) -> frozenset[int] | None:
    """Return the numbers of calls as a set.

    Raises:
        HookTypeError: they are not ints of 0 or more.
    """
    if calls is None:
        return None
    numbers = [calls] if isinstance(calls, int) else list(calls)
    if not numbers or not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise HookTypeError(
            f"calls= takes numbers of calls, counted from 0: an int, a list or a range; got {calls!r:.80}."
        )
    return frozenset(numbers)


def _checked_when(when: Any) -> Any:
    if when is not None and not callable(when):
        raise HookTypeError(f"when= takes a function of the call, got {type(when).__name__}.")
    return when


def _short(rows: Any) -> str:
    return str(rows.tolist()) if hasattr(rows, "tolist") else f"{rows!r}"
