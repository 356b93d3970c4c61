"""The true prefix: what is frozen, and done with before anything trainable is used."""

from __future__ import annotations

from typing import Any

from torch import nn

from hookline.errors import FreezeError
from hookline.freezing.example import Example
from hookline.freezing.layout import Layout, Part, Slot
from hookline.freezing.naming import named, outermost
from hookline.freezing.refusals import reentrant_message
from hookline.freezing.run import Run, record


def runs_before(layout: Layout, where: Any, example: Example) -> Part:
    """Return all modules and parameters that a run on the example is done with before it comes to `where`.

    Raises:
        FreezeError: it never comes there, or nothing comes before.
    """
    wanted = named(layout, [where])
    run = record(layout, example)
    moments = [at for module in wanted.modules.values() if (at := run.first_call(module)) is not None]
    moments += [] if (first := run.first_use(wanted.slots)) is None else [first]
    if not moments:
        raise FreezeError(f"until={where!r}: the model did not run it on the example.")
    part = _done(layout, run, min(moments))
    if not part:
        raise FreezeError(f"until={where!r}: nothing that could be frozen runs before it.")
    return part


def true_prefix(layout: Layout, frozen: Part, run: Run) -> tuple[Part, Slot | None]:
    """Return the part of what is frozen that is a true prefix, and the trainable tensor that is used first.

    Raises:
        FreezeError: reentrant checkpointing keeps that tensor from its gradient.
    """
    trains = {slot.key: slot for slot in layout.slots if slot.trains and slot.key not in frozen.slots}
    moment = run.first_use(trains)
    if moment is None:
        return _done(layout, run, None) & frozen, None
    earliest = trains[run.events[moment].key]
    return _done(layout, run, moment) & frozen, earliest


def check_gradient_arrives(layout: Layout, frozen: Part, run: Run) -> None:
    """Raise FreezeError if the trainable tensor used first lies in reentrant checkpointing, which kills its grad."""
    _, earliest = true_prefix(layout, frozen, run)
    if earliest is not None and run.events[run.first_use({earliest.key}) or 0].reentrant:
        raise FreezeError(reentrant_message(earliest.path))


def outline(layout: Layout, part: Part) -> tuple[str, ...]:
    """Return the paths of the outermost modules and bare parameters of a part."""
    found = outermost(layout, part)
    return tuple(layout.path(each) if isinstance(each, nn.Module) else each.path for each in found)


def _done(layout: Layout, run: Run, moment: int | None) -> Part:
    done = set(run.done_before(moment))
    later = {each.key for each in run.events[moment:]} if moment is not None else set()
    part = layout.whole(place.module for place in layout.places if id(place.module) in done)
    part |= Part(slots={slot.key: slot for slot in layout.slots if slot.key in done})
    # A module that is done with may share a module or a parameter of its own with what comes later.
    later |= {key[0] for key in part.slots.keys() & later}
    return Part(
        {key: module for key, module in part.modules.items() if key not in later},
        {key: slot for key, slot in part.slots.items() if key not in later},
    )
