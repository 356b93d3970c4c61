"""Hand captured tensors out of compiled code.

Compiled code cannot append to a list without being compiled anew for each length. It can call an operator: `keep`
is one, and says that it writes to its first argument, so that no compiler leaves it out. That argument is a ticket:
a tensor whose value says where the tensors go, which no compiled code depends on. So the same compiled code serves
each later capture of the same sites.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("hookline", "DEF")  # type: ignore[no-untyped-call]
_library.define("keep(Tensor(a!) ticket, Tensor[] values) -> ()")  # type: ignore[no-untyped-call]
_numbers = itertools.count()
_receivers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def ticket_for(receiver: Any) -> Tensor:
    """Return a ticket with which compiled code reaches `receiver.receive(tensors)`, as long as that lives."""
    number = next(_numbers)
    _receivers[number] = receiver
    return torch.tensor(number)


def keep(ticket: Tensor, values: list[Tensor]) -> None:
    """In compiled code: hand the values these tensors have at this point to the receiver of the ticket."""
    torch.ops.hookline.keep(ticket, values)


def _keep(ticket: Tensor, values: list[Tensor]) -> None:
    receiver = _receivers.get(int(ticket))
    if receiver is not None:
        # The memory of a tensor in compiled code is used again as soon as the code is done with it.
        receiver.receive([value.clone() for value in values])


def _keep_nothing(ticket: Tensor, values: list[Tensor]) -> None:
    """Be the operator while a compiler runs the code with tensors that have no values."""


_library.impl("keep", _keep, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
_library.impl("keep", _keep_nothing, "Meta")  # type: ignore[no-untyped-call]
