"""The tensors that a hook wants whose address names a part of the arguments or of the output."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

from hookline.address import Address, Arguments, leaves, read

Numbers = frozenset[int]


def signature_at(about: Any, module: nn.Module) -> inspect.Signature:
    """Return the signature of what is called: of the module's method, or of the function that the address names."""
    known: inspect.Signature | None = getattr(about, "signature", None)
    return known if known is not None else inspect.signature(getattr(module, about.address.method or "forward"))


def wanted_of_arguments(
    signature: inspect.Signature, address: Address, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]
) -> Numbers:
    """Return the numbers, among `tensors`, of those in the part of the arguments that the address names.

    Raises:
        PartError: there is no such part.
    """
    argument = Arguments(signature, args, kwargs)[address.part[0]]
    return _numbers(read(argument, address.part[1:], address=str(address)), tensors)


def wanted_of_output(address: Address, output: Any, tensors: list[Tensor]) -> Numbers:
    """Return the numbers, among `tensors`, of those in the part of the output that the address names.

    Raises:
        PartError: there is no such part.
    """
    return _numbers(read(output, address.part, address=str(address)), tensors)


def _numbers(value: Any, tensors: list[Tensor]) -> Numbers:
    inside = {id(leaf) for _, leaf in leaves(value)}
    return frozenset(number for number, tensor in enumerate(tensors) if id(tensor) in inside)
