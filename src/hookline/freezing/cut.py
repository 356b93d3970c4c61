"""Where a model can be cut: the last output of its frozen beginning."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from hookline.errors import FreezeError
from hookline.freezing.layout import Layout, Part
from hookline.freezing.level import is_dropout
from hookline.freezing.prefix import true_prefix
from hookline.freezing.run import ENTER, EXIT, Run


@dataclass(frozen=True)
class Cut:
    """A place behind which the model can go on from a stored value.

    Attributes:
        module: its output is stored.
        path: its path.
        prefix: what is frozen and done with there.
        before: the outermost modules whose calls end before that, the module itself not among them.
    """

    module: nn.Module
    path: str
    prefix: Part
    before: tuple[nn.Module, ...]


def find_cut(layout: Layout, frozen: Part, run: Run) -> Cut:
    """Return the last output of the true prefix.

    Raises:
        FreezeError: there is none, or what runs before it is not all frozen.
    """
    prefix, earliest = true_prefix(layout, frozen, run)
    if earliest is None:
        raise FreezeError("nothing that trains is used by the model, so that there is nothing to train from features.")
    moment = run.first_use({earliest.key})
    ends = [at for at, each in enumerate(run.events[:moment]) if each.kind == EXIT and each.key in prefix.modules]
    once = [at for at in ends if run.calls(prefix.modules[run.events[at].key]) == 1]
    if not once:
        raise FreezeError(
            f"no frozen module runs before {earliest.path!r}, which trains: there is no true prefix to cache."
        )
    module = prefix.modules[run.events[once[-1]].key]
    before = _outermost_before(layout, run, once[-1])
    for each in before:
        _check_harmless(layout, each, prefix)
    return Cut(module, layout.path(module), prefix, tuple(each for each in before if each is not module))


def _outermost_before(layout: Layout, run: Run, end: int) -> list[nn.Module]:
    """Return the modules whose calls end by the event `end`, without those that are called inside such calls."""
    modules = {id(place.module): place.module for place in layout.places}
    found: dict[int, nn.Module] = {}
    open_calls: list[tuple[int, list[int]]] = [(0, [])]  # each with what was called inside
    for event in run.events[: end + 1]:
        if event.kind == ENTER:
            open_calls.append((event.key, []))
        elif event.kind == EXIT:
            key, _ = open_calls.pop()
            open_calls[-1][1].append(key)
    for _, inside in open_calls:  # what is still open contains the cut
        found |= {key: modules[key] for key in inside}
    return list(found.values())


def _check_harmless(layout: Layout, module: nn.Module, prefix: Part) -> None:
    """Raise unless everything that runs in a module before the cut is frozen, or has neither state nor chance."""
    for each in module.modules():
        if id(each) in prefix.modules:
            continue
        if is_dropout(each):
            why = "drops values at random"
        elif each._buffers or each._parameters:
            why = "has a state of its own"
        else:
            continue
        raise FreezeError(
            f"{layout.path(each)!r} runs before the last frozen module, is not frozen itself, and {why}: freeze it too "
            "(modules without parameters can be frozen as well), and what it needs will not change from epoch to epoch."
        )
