"""The count of a model's parameters, each once, and of the modules that were not called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from hookline.address import Address, Target
from hookline.address.paths import places
from hookline.capturing.budget import human
from hookline.hooks.never_fired import why_never_fired
from hookline.looking.watch import Watch

_HOLDERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


@dataclass(frozen=True)
class NeverCalled:
    """A module that was not called.

    Attributes:
        path: its path.
        type: the name of its class.
        parameters: what it and the modules within own, counted nowhere else.
        why: the likeliest reason.
    """

    path: str
    type: str
    parameters: int
    why: str

    def __str__(self) -> str:
        held = f", {self.parameters:,} parameters" if self.parameters else ""
        return f"{self.path} ({self.type}{held}): {self.why}"


@dataclass(frozen=True)
class Totals:
    """Sums over a model, each tensor once.

    Attributes:
        modules: the modules.
        parameters: the numbers in all parameters: `sum(p.numel() for p in model.parameters())`.
        trainable: those that want a gradient.
        uncalled: those of modules that were not called.
        bytes: the bytes of parameters and buffers.
        time_s: the seconds of the run.
    """

    modules: int
    parameters: int
    trainable: int
    uncalled: int
    bytes: int
    time_s: float

    def __str__(self) -> str:
        frozen = self.parameters - self.trainable
        unused = f", {self.uncalled:,} in modules not called" if self.uncalled else ""
        return (
            f"{self.modules} modules, {self.parameters:,} parameters ({self.trainable:,} trainable, {frozen:,} frozen"
            f"{unused}), {human(self.bytes)} with buffers, {self.time_s * 1e3:.1f} ms"
        )


def owners(watch: Watch) -> dict[str, tuple[int, bool]]:
    """Return for each path the parameters that its module owns and no earlier one does, and whether it shares any.

    Modules that were called come first, in their order: a weight that is tied between one that was called and one
    that was not belongs to the former. What a list of parameters holds belongs to the module around it.
    """
    modules = {place.paths[0] or ".": place.module for place in places(watch.model)}
    counted: set[int] = set()
    owned: dict[str, tuple[int, bool]] = dict.fromkeys(watch.seen, (0, False))
    for path in (*watch.seen, *(path for path in modules if path not in watch.seen)):
        own = {id(each): each for each in modules[path].parameters(recurse=False)}
        number = sum(each.numel() for key, each in own.items() if key not in counted)
        owner = _caller(path, watch) if path not in watch.seen and _holds(modules[path], path, watch) else path
        before, shares = owned.get(owner, (0, False))
        owned[owner] = (before + number, shares or bool(counted & set(own)))
        counted |= set(own)
    return owned


def never_called(watch: Watch, owned: dict[str, tuple[int, bool]]) -> tuple[NeverCalled, ...]:
    """Return the modules that were not called, nor any module within; of nested ones the outermost."""
    found: list[NeverCalled] = []
    for place in places(watch.model):
        path = place.paths[0] or "."
        if path in watch.seen or path in watch.refused or _holds(place.module, path, watch):
            continue
        if any(_within(path, each.path) for each in found):
            continue
        target = Target(path, place.paths, place.module, Address().at(place.paths[0]))
        parameters = sum(number for other, (number, _) in owned.items() if other == path or _within(other, path))
        why = why_never_fired(watch.model, target, others_ran=bool(watch.seen))
        found.append(NeverCalled(path, type(place.module).__name__, parameters, why))
    return tuple(found)


def totals(model: nn.Module, uncalled: Sequence[NeverCalled], time_s: float) -> Totals:
    """Return the sums over the model."""
    parameters = list(model.parameters())
    buffers = {id(buffer): buffer for buffer in model.buffers()}
    return Totals(
        modules=len(places(model)),
        parameters=sum(each.numel() for each in parameters),
        trainable=sum(each.numel() for each in parameters if each.requires_grad),
        uncalled=sum(each.parameters for each in uncalled),
        bytes=sum(each.nbytes for each in (*parameters, *buffers.values())),
        time_s=time_s,
    )


def _holds(module: nn.Module, path: str, watch: Watch) -> bool:
    """Return whether the module only holds others, or parameters, for whoever calls or reads those."""
    return isinstance(module, _HOLDERS) or any(_within(other, path) for other in watch.seen)


def _caller(path: str, watch: Watch) -> str:
    """Return the path of the innermost module around this one that was called; its own if there is none."""
    above = path
    while above != ".":
        above = above.rpartition(".")[0] or "."
        if above in watch.seen:
            return above
    return path


def _within(path: str, above: str) -> bool:
    return above == "." or path.startswith(f"{above}.")
