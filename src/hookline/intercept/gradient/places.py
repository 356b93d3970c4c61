"""Where the tensors that get a gradient lie in the arguments or the output of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hookline.address import children, leaves, map_leaves, rebuild
from hookline.address.spelling import Part
from hookline.errors import HookResultError

Gradients = list["Tensor | None"]


@dataclass(frozen=True)
class Places:
    """The places, without the tensors: those are the graph's to keep.

    Attributes:
        slots: one for each argument, or each entry of the output, as PyTorch counts them: the number of the tensor
            there, None for what gets no gradient, or a nested value with such numbers.
        parts: for each number the way to the tensor; the first, when it is there several times.
        keys: of each slot: the position or name of an argument, the key in the output; empty for an output that is
            not a container.
        container: the output with its slots in the place of its entries, if it is a container.
    """

    slots: tuple[Any, ...]
    parts: tuple[Part, ...]
    keys: Part = ()
    container: Any = None

    def filled(self, gradients: Gradients) -> tuple[Any, ...]:
        """Return PyTorch's tuple: the gradients in their slots, None for what has none."""
        if len(gradients) == 1 and self.slots == _FIRST:  # the usual case
            return (gradients[0],)
        return tuple(
            None if slot is None else gradients[slot] if type(slot) is int else _filled(slot, gradients)
            for slot in self.slots
        )

    def filled_container(self, gradients: Gradients) -> Any:
        """Return the output's structure with the gradients in it, None for what has none."""
        return gradients[0] if self.container is None else _filled(self.container, gradients)

    def taken(self, returned: Any, gradients: Gradients, expected: str) -> Gradients:
        """Return the gradients with those that a hook returned in their places; None there keeps what is.

        Args:
            returned: a tuple or list with an entry for each slot; where there is one slot, also the tensor itself.
            gradients: the gradients as they are.
            expected: how the hook is called, for the error.

        Raises:
            HookResultError: it does not fit.
        """
        if isinstance(returned, Tensor) and len(self.slots) == 1:
            returned = (returned,)
        if not isinstance(returned, (tuple, list)) or len(returned) != len(self.slots):
            came = f"{len(returned)}" if isinstance(returned, (tuple, list)) else f"a {type(returned).__name__}"
            raise HookResultError(
                f"{expected} must return None or a tuple of {len(self.slots)}, one entry for each of the "
                f"gradients it was given; it returned {came}."
            )
        new = list(gradients)
        for number, (slot, entry) in enumerate(zip(self.slots, returned, strict=True)):
            for place, gradient in _pairs(slot, entry, f"{expected}, entry {number}"):
                if gradients[place] is not gradient:
                    old = gradients[place]
                    if old is None:
                        raise HookResultError(
                            f"{expected}, entry {number}: there is no gradient here to be replaced; return None."
                        )
                    new[place] = fitting(gradient, old, f"{expected}, entry {number}")
        return new


_FIRST = (0,)
NOWHERE = Places((), ())
NOTHING = Places((None,), ())
ONE_ARGUMENT = Places(_FIRST, ((0,),), (0,))
ONE_OUTPUT = Places(_FIRST, ((),))


def found_in_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Places, list[Tensor]]:
    """Return where tensors that require a gradient lie in the arguments, and the tensors; each tensor once."""
    slots, parts, tensors = _found([*enumerate(args), *kwargs.items()])
    return Places(slots, parts, (*range(len(args)), *kwargs)), tensors


def found_in_output(output: Any) -> tuple[Places, list[Tensor]]:
    """Return where tensors that require a gradient lie in the output of a module, and the tensors; each tensor once."""
    if isinstance(output, Tensor):
        return (ONE_OUTPUT, [output]) if output.requires_grad else (NOTHING, [])
    inner = children(output)
    if inner is None:
        return NOTHING, []
    slots, parts, tensors = _found(inner)
    return Places(slots, parts, tuple(key for key, _ in inner), rebuild(output, list(slots))), tensors


def _found(slots: Sequence[tuple[str | int, Any]]) -> tuple[tuple[Any, ...], tuple[Part, ...], list[Tensor]]:
    tensors: list[Tensor] = []
    parts: list[Part] = []
    numbers: dict[int, int] = {}

    def number_of(part: Part, tensor: Tensor) -> int:
        number = numbers.get(id(tensor))
        if number is None:
            numbers[id(tensor)] = number = len(tensors)
            tensors.append(tensor)
            parts.append(part)
        return number

    def placed(part: Part, leaf: Any) -> int | None:
        return number_of(part, leaf) if isinstance(leaf, Tensor) and leaf.requires_grad else None

    entries: list[Any] = []
    for key, value in slots:
        if isinstance(value, Tensor):
            entries.append(placed((key,), value))
        elif children(value):
            nested = map_leaves(placed, value, (key,))
            entries.append(nested if any(number is not None for _, number in leaves(nested)) else None)
        else:
            entries.append(None)
    return tuple(entries), tuple(parts), tensors


def fitting(gradient: Any, old: Tensor, where: str) -> Tensor:
    """Return a gradient that came from a hook if it can take the place of `old`.

    Raises:
        HookResultError: it has another shape, dtype or device, or is no tensor.
    """
    if not isinstance(gradient, Tensor):
        came = f"a {type(gradient).__name__}"
    elif (gradient.shape, gradient.dtype, gradient.device) == (old.shape, old.dtype, old.device):
        return gradient
    else:
        came = _described(gradient)
    raise HookResultError(f"{where}: expected a gradient of {_described(old)}; the hook gave {came}.")


def _described(tensor: Tensor) -> str:
    return f"shape {tuple(tensor.shape)}, {tensor.dtype}, on {tensor.device}"


def _filled(slot: Any, gradients: Gradients) -> Any:
    return map_leaves(lambda _, number: None if number is None else gradients[number], slot)


def _pairs(slot: Any, entry: Any, where: str) -> list[tuple[int, Any]]:
    """Return (number, new gradient) for what a hook returned in one slot."""
    if entry is None:
        return []
    if slot is None:
        raise HookResultError(f"{where}: what is here gets no gradient; return None for it.")
    if type(slot) is int:
        return [(slot, entry)]
    places, given = leaves(slot), leaves(entry)
    if [part for part, _ in places] != [part for part, _ in given]:
        raise HookResultError(
            f"{where}: expected the nested structure that the hook was given, with the parts "
            f"{[_dotted(part) for part, _ in places]}; it returned {[_dotted(part) for part, _ in given]}."
        )
    return [
        (number, new)
        for (_, number), (_, new) in zip(places, given, strict=True)
        if number is not None and new is not None
    ]


def _dotted(part: Part) -> str:
    return ".".join(map(str, part))
