"""What is frozen, what trains, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hookline.capturing.budget import human
from hookline.freezing.layout import Layout, Part, Slot
from hookline.table import aligned


@dataclass(frozen=True)
class Row:
    """One module of the model, or a parameter that is owned further up.

    Attributes:
        path: where.
        frozen, trainable: how many elements of parameters.
        frozen_bytes, trainable_bytes: their bytes.
        buffer_bytes: the bytes of the buffers.
    """

    path: str
    frozen: int
    frozen_bytes: int
    trainable: int
    trainable_bytes: int
    buffer_bytes: int


@dataclass(frozen=True)
class Earliest:
    """The trainable tensor that is used first, from which on autograd keeps the graph.

    Attributes:
        path: where.
        saved_bytes: the activations that a forward pass in training mode saves for the backward pass.
        saved_bytes_without: the same, if this one tensor were frozen too.
    """

    path: str
    saved_bytes: int
    saved_bytes_without: int


@dataclass(frozen=True)
class FreezeReport:
    """What is frozen, what trains and what that costs; prints as a table.

    Attributes:
        level: "params", "state" or "function".
        rows: counts and bytes by child of the model; each tied tensor is counted once.
        parked_bytes: the bytes of optimizer state that `park` took away.
        prefix: the outermost modules and bare parameters of the true prefix: all frozen, and done with before the
            first trainable tensor is used, so that they run without a graph; None when no example was given.
        earliest: the trainable tensor used first; None when no example was given or nothing trains.
        skipped: what is in the frozen part and not frozen, with the reason.
    """

    level: str
    rows: tuple[Row, ...]
    parked_bytes: int
    prefix: tuple[str, ...] | None
    earliest: Earliest | None
    skipped: tuple[str, ...]

    @property
    def frozen(self) -> int:
        """How many elements of parameters are frozen."""
        return sum(row.frozen for row in self.rows)

    @property
    def trainable(self) -> int:
        """How many elements of parameters train."""
        return sum(row.trainable for row in self.rows)

    def __str__(self) -> str:
        header = ("module", "frozen", "bytes", "trainable", "bytes", "buffers")
        lines = [aligned(header, [_cells(row) for row in (*self.rows, self._total())])]
        if self.parked_bytes:
            lines.append(f"optimizer state parked: {human(self.parked_bytes)}")
        if self.prefix is None:
            lines.append("true prefix: not known; give an example input: report(x)")
        else:
            lines.append(f"true prefix: {_outline(self.prefix)}")
        if self.earliest is not None:
            first = self.earliest
            lines.append(
                f"earliest trainable tensor: {first.path}; saved activations {human(first.saved_bytes)}, without it "
                f"{human(first.saved_bytes_without)}"
            )
        return "\n".join([*lines, *(f"skipped: {each}" for each in self.skipped)])

    def _total(self) -> Row:
        names = ("frozen", "frozen_bytes", "trainable", "trainable_bytes", "buffer_bytes")
        return Row("total", *(sum(getattr(row, name) for row in self.rows) for name in names))


def rows(layout: Layout, depth: int) -> tuple[Row, ...]:
    """Return the counts of each module that is so many names deep, and of parameters that are owned further up."""
    children: dict[str, list[Slot]] = {}
    seen: set[int] = set()
    for slot in (*layout.slots, *layout.buffers(place.module for place in layout.places)):
        if id(slot.tensor) not in seen:
            seen.add(id(slot.tensor))
            children.setdefault(".".join(slot.path.split(".")[:depth]), []).append(slot)
    return tuple(_row(path, slots) for path, slots in children.items())


def skipped(layout: Layout, part: Part, kept_random: Iterable[nn.Module]) -> tuple[str, ...]:
    """Say what of a frozen part is not frozen, or needs no freezing, and why."""
    lines = [
        f"{slot.path}: {slot.tensor.dtype} has no gradient to switch off; it is watched"
        for slot in layout.slots
        if slot.key in part.slots and slot.tensor is not None and not _has_gradients(slot.tensor)
    ]
    lines += [
        f"{layout.path(module)}: has packed weights (quantised), which have no gradient and cannot be watched"
        for module in part.modules.values()
        if any(isinstance(each, torch.ScriptObject) for each in vars(module).values())
    ]
    return tuple(lines + [f"{layout.path(each)}: dropout follows the mode of the model" for each in kept_random])


def _row(path: str, slots: list[Slot]) -> Row:
    frozen = [each.tensor for each in slots if each.kind == "parameter" and not each.trains]
    trains = [each.tensor for each in slots if each.kind == "parameter" and each.trains]
    buffers = [each.tensor for each in slots if each.kind == "buffer"]
    return Row(path, _count(frozen), _bytes(frozen), _count(trains), _bytes(trains), _bytes(buffers))


def _count(tensors: Iterable[Tensor | None]) -> int:
    return sum(each.numel() for each in tensors if each is not None)


def _bytes(tensors: Iterable[Tensor | None]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors if each is not None)


def _has_gradients(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _cells(row: Row) -> tuple[object, ...]:
    return (
        row.path, row.frozen, human(row.frozen_bytes), row.trainable, human(row.trainable_bytes),
        human(row.buffer_bytes),
    )  # fmt: skip


def _outline(paths: tuple[str, ...]) -> str:
    return ", ".join(paths[:6]) + (f" and {len(paths) - 6} more" if len(paths) > 6 else "") or "none"
