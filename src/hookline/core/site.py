"""The hooks on one callable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from hookline.core.hook import AFTER, AROUND, BEFORE, CALL, OUTPUT_GRADIENT, Hook
from hookline.core.numbering import Calls

_in_order = attrgetter("key")

registration = threading.RLock()
"""Held while one site is replaced by the next, never while hooks run."""


class Site:
    """A place where calls are caught: the hooks there, in the order in which they run.

    Never changed, only replaced whole, so that a call that has begun goes on with one consistent set of hooks
    whatever other threads, or the hooks themselves, add and remove in the meantime.

    Attributes:
        before, around, after: the hooks of each phase of the call.
        gradient: those of the backward pass.
        plan: what these need; for whoever sees to them to keep here.
        calls: numbers the calls, once there is a hook that is told the number; passed on to the next site.
        plain: whether the short call loop can run all hooks.
        scopes: what tells, for the hooks that do not take part in every call, whether they take part in this.
        all_scoped: whether all hooks are of that kind.
    """

    __slots__ = ("after", "all_scoped", "around", "before", "calls", "gradient", "plain", "plan", "scopes")

    def __init__(
        self,
        before: tuple[Hook, ...],
        around: tuple[Hook, ...],
        after: tuple[Hook, ...],
        gradient: tuple[Hook, ...],
        plain: bool,
        scopes: tuple[Callable[[], bool], ...],
        all_scoped: bool,
        calls: Calls | None,
    ) -> None:
        self.before = before
        self.around = around
        self.after = after
        self.gradient = gradient
        self.plan: Any = None
        self.plain = plain
        self.scopes = scopes
        self.all_scoped = all_scoped
        self.calls = calls

    @classmethod
    def of(cls, hooks: list[Hook], calls: Calls | None) -> Site:
        """Return the site of these hooks, which are in the order in which they run; `NOWHERE` when there are none."""
        if not hooks:
            return NOWHERE
        return cls(
            tuple(hook for hook in hooks if hook.phase == BEFORE),
            tuple(hook for hook in hooks if hook.phase == AROUND),
            tuple(hook for hook in hooks if hook.phase == AFTER),
            tuple(hook for hook in hooks if hook.phase >= OUTPUT_GRADIENT),
            all(hook.plain for hook in hooks),
            tuple(hook.applies for hook in hooks if hook.applies is not None),
            all(hook.applies is not None for hook in hooks),
            calls or (Calls() if any(hook.convention == CALL for hook in hooks) else None),
        )

    def __iter__(self) -> Iterator[Hook]:
        return iter(self.before + self.around + self.after + self.gradient)

    def __len__(self) -> int:
        return len(self.before) + len(self.around) + len(self.after) + len(self.gradient)

    def with_hook(self, hook: Hook) -> Site:
        """Return a site that has `hook` too, in its place; it runs from the next call on."""
        if self is NOWHERE:  # the usual case, at a third of the cost
            alone, phase = (hook,), hook.phase
            return Site(
                alone if phase == BEFORE else (),
                alone if phase == AROUND else (),
                alone if phase == AFTER else (),
                alone if phase >= OUTPUT_GRADIENT else (),
                hook.plain,
                () if hook.applies is None else (hook.applies,),
                hook.applies is not None,
                Calls() if hook.convention == CALL else None,
            )
        if self.calls is not None:
            hook.first = self.calls.latest + 1
        return Site.of(sorted((*self, hook), key=_in_order), self.calls)

    def without(self, hook: Hook) -> Site:
        """Return a site that lacks `hook`; `NOWHERE` when no other is left."""
        hooks = self.before + self.around + self.after + self.gradient
        if len(hooks) == 1 and hooks[0] is hook:
            return NOWHERE
        return Site.of([other for other in hooks if other is not hook], self.calls)

    def in_scope(self) -> Site:
        """Return a site of the hooks that take part in a call made here and now."""
        hooks = self.before + self.around + self.after + self.gradient
        taking_part = [hook for hook in hooks if hook.applies is None or hook.applies()]
        return Site.of(taking_part, self.calls) if taking_part else NOWHERE

    def __reduce__(self) -> tuple[Callable[[], Site], tuple[()]]:
        # A site that is copied or pickled as part of something else comes out empty: hooks belong to the original.
        return _nowhere, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Site:
        return NOWHERE


def _nowhere() -> Site:
    return NOWHERE


NOWHERE = Site((), (), (), (), True, (), False, None)
"""The site without hooks."""
