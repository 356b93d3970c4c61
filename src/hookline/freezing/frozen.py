"""A part of a model that is frozen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from hookline.capturing.budget import bytes_of
from hookline.errors import NoMatchError, NotFrozenError
from hookline.freezing import optimizer_state, plan, prefix
from hookline.freezing.cache import cache
from hookline.freezing.cached_prefix import CachedPrefix
from hookline.freezing.causes import changes, threats
from hookline.freezing.example import Example
from hookline.freezing.holding import Holding
from hookline.freezing.layout import Layout, Part
from hookline.freezing.level import Level, is_dropout
from hookline.freezing.naming import named
from hookline.freezing.optimizer_state import ParameterGroup
from hookline.freezing.probing import Probe
from hookline.freezing.report import Earliest, FreezeReport, rows, skipped
from hookline.freezing.run import record
from hookline.freezing.saved_activations import cost
from hookline.freezing.schedule import FreezeSchedule
from hookline.intercept.hookable import check_module


class Frozen:
    """A part of a model that is frozen, until `remove()` or the end of a `with` block; made by `hookline.freeze`.

    Dropping the object thaws nothing.

    Attributes:
        model: the model.
        level: "params", "state" or "function".
        dropout: whether dropout in the frozen part follows the mode of the model.
    """

    def __init__(
        self, model: nn.Module, part: Part, level: Level, example: Example | None = None, asked: Part | None = None
    ) -> None:
        self.model = model
        self.level = level.name
        self.dropout = level.dropout
        self._holding = Holding(model, level, part if asked is None else asked)
        self._example = example
        self._probe = Probe()
        self._holding.become(part)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the frozen parameters, in the order of the model."""
        return tuple(slot.path for slot in Layout(self.model).slots if slot.key in self._holding.part.slots)

    def thaw(self, *where: Any) -> None:
        """Let what `where` names train again; everything, when nothing is named.

        Flags and modes become what they would be now without this freeze; what another freeze holds stays frozen.

        Raises:
            NoMatchError: something in `where` names nothing in the model, or nothing that is frozen here.
            FreezeError: it cannot be thawed now: a tied parameter stays frozen, or the model is in a DDP wrapper.
        """
        if not where:
            self._holding.become(Part())
            return
        layout = Layout(self.model)
        for each in where:
            if not named(layout, [each]) & self._holding.part:
                raise NoMatchError(f"nothing that {each!r} names is frozen here; frozen are: {self._outline()}.")
        self._holding.become(self._holding.part - named(layout, where))

    def remove(self) -> None:
        """Thaw everything, for good; calling this again does nothing."""
        self._holding.become(Part())
        self._holding.ended = True

    def check(self, optimizer: Optimizer | None = None, probe: Any = None) -> None:
        """Raise if anything frozen is not what it was, naming each tensor, by how much it changed and the likely cause.

        Args:
            optimizer: also audit this one: every trainable parameter is in exactly one group, and a step moves
                nothing frozen. The step is made by a copy of the optimizer and its parameters, which takes memory.
            probe: also run the model on this example (a tensor, a tuple of arguments or a dict of named ones) in
                training mode: each frozen module must give bit for bit what it gives in inference mode.

        Raises:
            NotFrozenError: something changed, or would change.
        """
        if self._holding.ended:
            raise NotFrozenError("nothing is frozen here any more: it was removed, so that there is nothing to check.")
        layout = Layout(self.model)
        prints = list(self._holding.prints.values())
        wrong = changes(prints) + threats(layout, self._holding.part, self._holding.level)
        if optimizer is not None:
            optimizer_state.check_optimizer(optimizer)
            wrong += optimizer_state.audit(layout, optimizer, list(self._holding.part.slots.values()))
        if probe is not None:
            wrong += self._probe.differences(layout, self._holding.part, Example.of(probe))
        if wrong:
            raise NotFrozenError("what should be frozen is not:\n" + "\n".join(f"  {line}" for line in wrong))

    def report(self, example: Any = None, *, depth: int = 1) -> FreezeReport:
        """Return what is frozen, what trains, and what that costs.

        Args:
            example: an input of the model: a tensor, a tuple of arguments or a dict of named ones. The model is run on
                it, to find the true prefix and what the earliest trainable tensor costs in saved activations. Left out,
                it is the one that `freeze` was given.
            depth: how many names of a path a row of the report has.

        Raises:
            FreezeError: reentrant checkpointing keeps a trainable tensor from its gradient.
        """
        layout = Layout(self.model)
        given = self._example if example is None else Example.of(example)
        before, earliest = (None, None) if given is None else self._costs(layout, given)
        random = [each for each in self._holding.part.modules.values() if self.dropout and is_dropout(each)]
        parked = sum(
            optimizer_state.parked_bytes(each, self._holding.part.slots.values()) for each in self._holding.optimizers
        )
        return FreezeReport(
            self.level, rows(layout, depth), parked, before, earliest, skipped(layout, self._holding.part, random)
        )

    def cache(
        self,
        loader: Any,
        folder: str | os.PathLike[str],
        *,
        inputs: Callable[[Any], Any] | None = None,
        keep: Callable[[Any], Any] | None = None,
        shard: int | str = "64 MiB",
        show: bool | None = None,
    ) -> CachedPrefix:
        """Run the frozen true prefix once for each sample, store its output, and return what trains from it.

        What a killed or interrupted run has written is taken up by the next one. A folder of features of other weights,
        inputs or parts of the model is refused.

        Args:
            loader: a DataLoader over a data set with `__getitem__` and `__len__`, or such a data set. Samples are read
                in the order of the data set, whatever the loader's.
            folder: where the features are, or are to be.
            inputs: gives of a batch the arguments of the model: a tensor, a tuple or a dict of named ones. By default
                the batch itself, if it is a tensor, or the first item of a tuple.
            keep: gives of a batch the tensors to keep beside the features; by default the other items of a tuple.
            shard: how much a file holds; what is not yet in a file is lost when the process is killed.
            show: a progress bar; None shows one on a terminal.

        Raises:
            FreezeError: cached features would be wrong, or the folder holds others: samples that differ between two
                readings, dropout that is on, outputs that depend on the batch, a rest of the model that needs more.
            NotFrozenError: the frozen part is not what it was.
            MissingExtraError: safetensors is not installed.
        """
        return cache(self, loader, Path(folder), inputs, keep, bytes_of(shard), show)

    def groups(self, optimizer: Optimizer) -> tuple[ParameterGroup, ...]:
        """Return for each parameter group of the optimizer which of its parameters train and which are frozen.

        Freezing and thawing never change the groups: a parameter that is to train later is in one from the start.
        """
        optimizer_state.check_optimizer(optimizer)
        return optimizer_state.groups(Layout(self.model), optimizer)

    def park(self, optimizer: Optimizer) -> int:
        """Take the optimizer's state of frozen parameters away and keep it; return the bytes of it.

        It is given back when they are thawed, and parked again when a schedule freezes them again. Without this the
        state stays where it is: as frozen parameters have no gradients, no step uses it.
        """
        optimizer_state.check_optimizer(optimizer)
        self._holding.optimizers.add(optimizer)
        optimizer_state.park(optimizer, self._holding.part.slots.values())
        return optimizer_state.parked_bytes(optimizer, self._holding.part.slots.values())

    def plan(self) -> dict[str, Any]:
        """Return what is frozen, as JSON can hold it, for a file beside a checkpoint.

        It holds the paths of the modules and parameters, the options, a hash of the model's structure, and one of each
        frozen tensor.
        """
        options = {"level": self.level, "dropout": self.dropout}
        return plan.described(
            Layout(self.model), self._holding.asked, self._holding.part, options, self._holding.prints.values()
        )

    @classmethod
    def apply_plan(
        cls, model: nn.Module, given: Mapping[str, Any] | str | os.PathLike[str], *, strict: bool = True
    ) -> Frozen:
        """Freeze of a model what a plan says, as it was frozen when the plan was made.

        Args:
            model: a model of the same structure, into which the checkpoint has been loaded.
            given: what `plan()` gave, or the name of a JSON file of it.
            strict: also prove that the frozen tensors are, bit for bit, what they were then.

        Raises:
            FreezeError: it is no plan, or one of a model of another structure.
            NotFrozenError: a tensor is not what it was.
        """
        check_module(model)
        held = plan.read(given)
        plan.check_structure(model, held)
        layout, level = Layout(model), Level.checked(held["level"], dropout=held["dropout"])
        asked, part = plan.part(layout, held["asked"]), plan.part(layout, held["frozen"])
        if strict:
            plan.check_weights(level.proven(layout, part), held)
        return cls(model, part, level, asked=asked)

    def schedule(self, epochs: Mapping[int, Any]) -> FreezeSchedule:
        """Return a schedule of what trains from which epoch on: `{0: "head", 3: "layer4"}`. It is not yet applied.

        Raises:
            NoMatchError: something in it names nothing in the model, or nothing that was to be frozen.
            HookTypeError: an epoch is no whole number.
        """
        return FreezeSchedule(self, epochs)

    def _costs(self, layout: Layout, example: Example) -> tuple[tuple[str, ...], Earliest | None]:
        run = record(layout, example, training=True)
        prefix.check_gradient_arrives(layout, self._holding.part, run)
        part, first = prefix.true_prefix(layout, self._holding.part, run)
        return prefix.outline(layout, part), None if first is None else cost(self.model, example, first)

    def _outline(self) -> str:
        paths = self.paths
        return ", ".join(paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "") or "nothing"

    def __enter__(self) -> Frozen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return (
            f"<Frozen of {len(self._holding.part.slots)} parameters in {type(self.model).__name__}: {self._outline()}>"
        )
