"""Tensors apart from the structure that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hookline.address import map_leaves


class Numbered:
    """Stands in a structure for the tensor of that number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def taken_apart(value: Any) -> tuple[Any, list[Tensor]]:
    """Return the structure of a value with `Numbered` in the place of its tensors, and the tensors.

    torch.compile traces it.
    """
    tensors: list[Tensor] = []

    def numbered(_: Any, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        tensors.append(leaf)
        return Numbered(len(tensors) - 1)

    return map_leaves(numbered, value), tensors


def put_together(skeleton: Any, tensors: Sequence[Tensor]) -> Any:
    """Return the value of that structure with these tensors.

    Raises:
        IndexError: there are fewer tensors than the structure has places for.
    """
    return map_leaves(lambda _, leaf: tensors[leaf.number] if isinstance(leaf, Numbered) else leaf, skeleton)
