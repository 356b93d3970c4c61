"""A run of a model that is watched: which modules were called, in which order, for how long, with what result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, nn

from hookline.address import leaves
from hookline.address.paths import places
from hookline.address.spelling import Part
from hookline.capturing.statistics import StatsAccumulator
from hookline.core import Call
from hookline.errors import CaptureError, HookRefusedError
from hookline.hooks import Hooks
from hookline.intercept.hookable import check_hookable


@dataclass
class PartSeen:
    """One tensor of a module's output, over all calls.

    Attributes:
        part: the way to it in a nested output; () when the output is the tensor.
        shape: its shape in the first call.
        dtype: its dtype in the first call.
        stats: the statistics of its values; None for values that have none (complex, sparse, on meta).
    """

    part: Part
    shape: tuple[int, ...]
    dtype: torch.dtype
    stats: StatsAccumulator | None


@dataclass
class ModuleSeen:
    """One module that was called.

    Attributes:
        path: its first path; "." is the model itself.
        module: the module.
        calls: how often it was called.
        nanoseconds: the time of all calls, those of the modules within included, our own work not.
        parts: the tensors of its output.
        inputs: the shapes of its arguments in the first call.
    """

    path: str
    module: nn.Module
    inputs: tuple[str, ...]
    calls: int = 0
    nanoseconds: int = 0
    parts: dict[Any, PartSeen] = field(default_factory=dict)


class Watch:
    """What is noted of each call while `model` runs.

    Attributes:
        seen: the modules in the order of their first call, so that a container comes before what it contains.
        finished: the paths in the order in which their first calls ended.
        failed: the module in which the run ended with an error, the innermost one.
        refused: the modules that cannot be hooked, by path, and why.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.seen: dict[str, ModuleSeen] = {}
        self.finished: list[str] = []
        self.failed: ModuleSeen | None = None
        self.refused: dict[str, str] = {}
        self._ours = 0  # nanoseconds that were spent here, to be taken off the times of the modules around
        self._synchronize = _synchronizer(model)

    @contextmanager
    def on(self) -> Iterator[Watch]:
        """Watch what runs in the block."""
        self.refused = {place.paths[0] or ".": why for place in places(self.model) if (why := _refusal(place.module))}
        hooks = Hooks(self.model)

        def hookable(path: str, _module: nn.Module) -> bool:
            return (path or ".") not in self.refused

        # Timed innermost, so that other hooks cost the module nothing; looked at outermost, when all edits are done.
        hooks.around(hookable, self._time, priority=float("-inf"))
        hooks.after(hookable, self._look, priority=float("-inf"))
        try:
            with _eager():
                yield self
        finally:
            hooks.remove()

    def _time(self, call: Call, proceed: Any) -> None:
        entered = perf_counter_ns()
        site = self._site(call)
        site.calls += 1
        self._synchronize()
        start = perf_counter_ns()
        self._ours += start - entered
        ours = self._ours
        try:
            proceed()
        except Exception:
            self.failed = self.failed or site
            raise
        self._synchronize()
        end = perf_counter_ns()
        site.nanoseconds += end - start - (self._ours - ours)
        if site.calls == 1:
            self.finished.append(site.path)
        self._ours += perf_counter_ns() - end

    def _look(self, call: Call) -> None:
        start = perf_counter_ns()
        site = self._site(call)
        for part, leaf in leaves(call.output):
            if isinstance(leaf, Tensor):
                _add(site, part, leaf)
        self._ours += perf_counter_ns() - start

    def _site(self, call: Call) -> ModuleSeen:
        site = self.seen.get(call.path)
        if site is None:
            given = (*leaves(call.args), *leaves(call.kwargs))
            inputs = tuple(shape_of(leaf) for _, leaf in given if isinstance(leaf, Tensor))
            site = self.seen[call.path] = ModuleSeen(call.path, call.module, inputs)
        return site


def _refusal(module: nn.Module) -> str:
    try:
        check_hookable(type(module), "forward")
    except HookRefusedError as error:
        return str(error)
    return ""


def shape_of(tensor: Tensor) -> str:
    """Return the shape as people write it, e.g. `1 x 3 x 224 x 224`; `scalar` for a tensor without axes."""
    return " x ".join(map(str, tensor.shape)) or "scalar"


def _add(site: ModuleSeen, part: Part, leaf: Tensor) -> None:
    # A module that is called again with another number of channels has a row for each: there are no numbers over both.
    channels = 0 if leaf.dim() < 2 else leaf.shape[1 if leaf.dim() >= 4 else -1]
    key = (part, leaf.dim(), channels)
    seen = site.parts.get(key)
    if seen is None:
        seen = site.parts[key] = PartSeen(part, tuple(leaf.shape), leaf.dtype, StatsAccumulator())
    if seen.stats is not None:
        try:
            seen.stats.update(leaf)
        except CaptureError:
            seen.stats = None


def _eager() -> Any:
    """Return a context in which compiled code is not used: it does not stop at each module, so has no times."""
    if "torch._dynamo" not in sys.modules:  # then nothing is compiled, and asking would load it
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _synchronizer(model: nn.Module) -> Any:
    """Return what waits for the model's device: elsewhere than on a processor a call returns before it is done."""
    device = next((tensor.device.type for tensor in (*model.parameters(), *model.buffers())), "cpu")
    if device in {"cpu", "meta"} or not torch.accelerator.is_available():
        return lambda: None
    return torch.accelerator.synchronize
