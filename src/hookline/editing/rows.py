"""The samples of a batch that an edit changes: rows of axis 0."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hookline.errors import EditError, HookTypeError


def checked_rows(rows: Any) -> slice | Tensor | None:
    """Return the rows as a slice or an integer or bool tensor.

    Raises:
        HookTypeError: they are no int, slice, list of ints, range or such a tensor.
    """
    if rows is None or isinstance(rows, slice):
        return rows
    if isinstance(rows, int) and not isinstance(rows, bool):
        rows = [rows]
    if isinstance(rows, (list, tuple, range)) and all(isinstance(row, int) for row in rows):
        rows = torch.tensor(rows, dtype=torch.bool if rows and isinstance(rows[0], bool) else torch.int64)
    if isinstance(rows, Tensor) and rows.dim() == 1 and rows.dtype in (torch.bool, torch.int32, torch.int64):
        return rows
    raise HookTypeError(f"rows= takes an int, a slice, a list of ints or a tensor of ints or bools; got {rows!r:.80}.")


def of_rows(value: Tensor, rows: slice | Tensor) -> Tensor:
    """Return the rows of a value.

    Raises:
        EditError: the value has no such rows.
    """
    if value.dim() == 0:
        raise EditError("rows= needs a value with a batch on axis 0, got one of shape ().")
    try:
        return value[rows if isinstance(rows, slice) else rows.to(value.device)]
    except IndexError as error:
        raise EditError(f"rows= does not fit a batch of {value.shape[0]}: {error}.") from None


def with_rows(value: Tensor, rows: slice | Tensor, new: Tensor) -> Tensor:
    """Return a copy of the value with other rows."""
    copy = value.clone()
    copy[rows if isinstance(rows, slice) else rows.to(value.device)] = new
    return copy
