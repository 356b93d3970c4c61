"""One change of a value, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hookline.core.hook import describe_function
from hookline.editing.indexing import Index, checked_index, selected, spelt, written
from hookline.errors import EditError

# Takes the selected elements, the number of the call, and the operands by name.
Compute = Callable[..., Tensor]

_computes: dict[str, Compute] = {}


def _all(value: Tensor) -> Tensor:
    return value


@dataclass(frozen=True, eq=False)
class Operation:
    """What to do with a value: `hookline.zero`, `hookline.scale(2)`, ...; indexing it selects elements.

    `scale(2)[..., 3:5]` changes those elements and keeps the others. The model's own tensor is never written to. The
    new value has the shape, dtype and device of the old.

    Attributes:
        name: of the operation.
        operands: its arguments by name: numbers, tensors, or the values of a capture.
        index: the elements that are meant; None for all.
        function: of the operation "function", what to call.
    """

    name: str
    operands: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    index: Index | None = None
    function: Callable[[Any], Any] | None = None
    _fill: float | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        # The number that goes into each element, if that is all there is to do: the old ones need not be looked at.
        number = 0 if self.name == "zero" else self.operands.get("value") if self.name == "replace" else None
        object.__setattr__(self, "_fill", number if isinstance(number, (int, float)) else None)

    def __getitem__(self, index: Any) -> Operation:
        if self.index is not None:
            raise EditError(f"{self} has an index already; write one index for all axes.")
        return dataclasses.replace(self, index=checked_index(index))

    @property
    def counts(self) -> bool:
        """Whether it is another for each call."""
        return self.name in {"noise", "patch"}

    @property
    def overwrites(self) -> bool:
        """Whether nothing of the old elements is left."""
        return self.name in {"zero", "replace", "patch", "mean"}

    def new(self, value: Tensor, number: Callable[[], int], pick: Callable[[Tensor], Tensor] = _all) -> Tensor:
        """Return the changed value.

        Args:
            value: any shape.
            number: returns the number of the call; only asked where it matters.
            pick: of what was captured, returns the samples that `value` has.

        Raises:
            EditError: an operand, or what the function returned, does not fit; the message lacks the address.
        """
        if self.index is not None and self._fill is not None:
            return written(value, self.index, _like(self._fill, value, self) if self._fill else 0)
        part = value if self.index is None else selected(value, self.index)
        if self.function is not None:
            changed = self.function(part)
            if changed is None:
                raise EditError(f"{self} returned None: an edit returns the new value.")
        else:
            operands = {name: _like(operand, part, self) for name, operand in self.operands.items()}
            changed = _computes[self.name](part, number, **operands)
            if self.name in {"patch", "mean"}:
                changed = self._own_part(pick(changed), value)
        changed = _fitting(changed, part, self)
        if self.index is not None:
            return written(value, self.index, changed)
        return changed.clone() if changed is value else changed

    def _own_part(self, source: Tensor, value: Tensor) -> Tensor:
        """Return of a value that was captured the elements that the index means, as it means them in `value`."""
        if self.index is None or not broadcasts(source, value):
            return source
        return selected(source.expand_as(value), self.index)

    def __str__(self) -> str:
        if self.function is not None:
            text = describe_function(self.function)
        else:
            shown = ", ".join(f"{name}={_short(operand)}" for name, operand in self.operands.items())
            text = f"{self.name}({shown})" if self.operands else self.name
        return text if self.index is None else f"{text}[{spelt(self.index)}]"

    __repr__ = __str__


def computes(name: str) -> Callable[[Compute], Compute]:
    """Register the function that computes the operation of that name."""

    def register(function: Compute) -> Compute:
        _computes[name] = function
        return function

    return register


def broadcasts(operand: Tensor, value: Tensor) -> bool:
    """Return whether the operand has the shape of the value, or one that broadcasts to it."""
    missing = value.dim() - operand.dim()
    return missing >= 0 and all(
        size in (1, length) for size, length in zip(operand.shape, value.shape[missing:], strict=True)
    )


def known_operations() -> list[str]:
    """Return the names of all operations."""
    return sorted(_computes)


def _like(operand: Any, part: Tensor, operation: Operation) -> Any:
    """Return an operand with the dtype and device of the value, if that does not change what it means."""
    if isinstance(operand, tuple):
        return tuple(_like(each, part, operation) for each in operand)
    if isinstance(operand, Tensor):
        if operand.dtype != part.dtype and not _is_safe(operand.dtype, part.dtype):
            raise EditError(
                f"{operation.name}: expected an operand that can become {part.dtype}, as the value is; "
                f"got {operand.dtype}."
            )
        return operand.to(device=part.device, dtype=part.dtype)
    if isinstance(operand, (float, complex)):
        kind = torch.complex64 if isinstance(operand, complex) else torch.float32
        if not _is_safe(kind, part.dtype):
            if operand.imag or not float(operand.real).is_integer():
                raise EditError(f"{operation.name}: {operand} cannot be had in a value of {part.dtype}.")
            return int(operand.real)
    return operand


def _is_safe(dtype: torch.dtype, to: torch.dtype) -> bool:
    """Return whether numbers of the one kind are numbers of the other: bool, integer, floating point, complex."""
    return _kind(dtype) <= _kind(to)


def _kind(dtype: torch.dtype) -> int:  # (not torch.can_cast: Dynamo cannot trace that)
    return 0 if dtype is torch.bool else 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


def _fitting(changed: Any, part: Tensor, operation: Operation) -> Tensor:
    """Return the new elements in shape and dtype of the old, or say what does not fit."""
    if not isinstance(changed, Tensor):
        raise EditError(f"{operation}: expected a tensor of shape {tuple(part.shape)}, got {type(changed).__name__}.")
    new: Tensor = changed
    if new.shape != part.shape:
        try:
            new = new.expand_as(part)
        except RuntimeError:
            raise EditError(
                f"{operation}: expected shape {tuple(part.shape)}, or one that broadcasts to it; "
                f"got {tuple(new.shape)}."
            ) from None
    if new.dtype != part.dtype:
        if not _is_safe(new.dtype, part.dtype):
            raise EditError(f"{operation}: expected {part.dtype}, got {new.dtype}, which cannot become it.")
        new = new.to(part.dtype)
    if new.device != part.device:
        raise EditError(f"{operation}: expected a tensor on {part.device}, got one on {new.device}.")
    return new


def _short(operand: Any) -> str:
    if isinstance(operand, Tensor):
        return f"{operand.tolist()}" if operand.numel() <= 4 else f"<tensor {tuple(operand.shape)}>"
    if isinstance(operand, tuple) and operand and all(isinstance(each, Tensor) for each in operand):
        shapes = ", ".join(str(tuple(each.shape)) for each in operand[:3]) + (", ..." if len(operand) > 3 else "")
        return f"<{len(operand)} values {shapes}>"
    return f"<{type(operand).__name__}>" if isinstance(operand, Mapping) else f"{operand!r:.60}"
