"""One hook that a group has put on all modules that an address matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hookline.address import Selection
from hookline.core import CALL, INPUT_GRADIENT, OUTPUT_GRADIENT, Handle, Hook
from hookline.core.hook import PHASES, describe_function
from hookline.hooks.record import Record, recorded
from hookline.intercept.placing import place_all

if TYPE_CHECKING:
    from hookline.hooks.group import Hooks


class Registration:
    """What the methods of `Hooks` return: the hook on every module that it matched.

    It is a sequence of `Record`s, one for each module, and a context manager that removes the hook.
    """

    def __init__(
        self, group: Hooks, phase: int, where: str, function: Callable[..., Any], selection: Selection, priority: float
    ) -> None:
        self.group = group
        self.where = where
        self.function = function
        self._phase = phase
        self._priority = priority
        self._handles: list[Handle] = []
        self._key: tuple[float, int] | None = None
        self.records = tuple(Record(target, function) for target in selection)

    @property
    def kind(self) -> str:
        """When the hook runs: "before", "around" or "after" the call, at a "gradient", or "after backward"."""
        return PHASES[self._phase]

    @property
    def enabled(self) -> bool:
        """Whether the hook is on its modules now."""
        return bool(self._handles)

    @property
    def removed(self) -> bool:
        """Whether the hook has been taken off for good."""
        return self not in self.group

    def enable(self) -> None:
        """Put the hook on (again), in its old place among the others."""
        if self.removed:
            raise RuntimeError(f"{self!r} has been removed from its group and cannot be enabled again.")
        if not self._handles:
            self._handles = place_all((record.target, self._hook(record)) for record in self.records)

    def disable(self) -> None:
        """Take the hook off for now: the modules are as if it had never been there."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def remove(self) -> None:
        """Take the hook off for good; calling this again does nothing."""
        self.disable()
        self.group._forget(self)

    def _hook(self, record: Record) -> Hook:
        phase = self._phase
        if phase == OUTPUT_GRADIENT and record.address.side == "input":
            phase = INPUT_GRADIENT
        hook = Hook(
            phase,
            recorded(record, phase),
            CALL,
            priority=self._priority,
            applies=self.group._scope.applies if self.group._scope else None,
            about=record,
        )
        if self._key is None:
            self._key = hook.key
        hook.key = self._key
        return hook

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        count = len(self.records)
        state = "" if self.enabled else ", off"
        what = f"{count} module{'s' * (count != 1)}"
        return f"<{self.kind} {self.where!r} on {what}: {describe_function(self.function)}{state}>"
