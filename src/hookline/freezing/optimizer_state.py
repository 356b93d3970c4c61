"""The state that optimizers keep of frozen parameters: taken away, given back, and proof that a step moves nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.weak import WeakIdKeyDictionary

from hookline.address import leaves
from hookline.errors import HookTypeError
from hookline.freezing.digest import digests
from hookline.freezing.layout import Layout, Slot
from hookline.freezing.ledger import held

_Kept = dict[int, tuple[Tensor, Any]]

_PARKED: MutableMapping[Optimizer, _Kept] = WeakIdKeyDictionary()
"""For each optimizer the state of each of its frozen parameters, by id, with the parameter."""


@dataclass(frozen=True)
class ParameterGroup:
    """One parameter group of an optimizer.

    Attributes:
        index: its position in `optimizer.param_groups`.
        options: its options, such as `lr`.
        trainable: the paths of its parameters that train.
        frozen: the paths of those that do not.
        elsewhere: how many parameters it has that are not of the model.
    """

    index: int
    options: dict[str, Any]
    trainable: tuple[str, ...]
    frozen: tuple[str, ...]
    elsewhere: int


def check_optimizer(optimizer: Any) -> None:
    """Raise unless it is an optimizer of PyTorch's kind."""
    if not isinstance(optimizer, Optimizer):
        raise HookTypeError(f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}.")


def groups(layout: Layout, optimizer: Optimizer) -> tuple[ParameterGroup, ...]:
    """Return what is in each group of the optimizer."""
    paths = {id(slot.tensor): slot for slot in reversed(layout.slots)}
    result = []
    for index, group in enumerate(optimizer.param_groups):
        ours = [paths[id(each)] for each in group["params"] if id(each) in paths]
        result.append(
            ParameterGroup(
                index,
                {key: value for key, value in group.items() if key != "params"},
                tuple(slot.path for slot in ours if slot.trains),
                tuple(slot.path for slot in ours if not slot.trains),
                len(group["params"]) - len(ours),
            )
        )
    return tuple(result)


def park(optimizer: Optimizer, slots: Iterable[Slot]) -> None:
    """Take the state of the parameters out of the optimizer and keep it."""
    kept = _PARKED.setdefault(optimizer, {})
    for slot in slots:
        tensor = slot.tensor
        if tensor is not None and tensor in optimizer.state:
            kept[id(tensor)] = tensor, optimizer.state.pop(tensor)


def give_back(slots: Iterable[Slot]) -> None:
    """Give each optimizer the state back of those that nobody holds any more."""
    free = {id(slot.tensor) for slot in slots if not held(slot)}
    for optimizer, kept in list(_PARKED.items()):
        for key in free & kept.keys():
            tensor, state = kept.pop(key)
            # What the optimizer has by now is newer: it has trained the parameter since.
            if tensor not in optimizer.state:
                optimizer.state[tensor] = state


def parked_bytes(optimizer: Optimizer, slots: Iterable[Slot]) -> int:
    """Return the bytes of the state that is parked of the parameters."""
    kept = _PARKED.get(optimizer, {})
    ids = {id(slot.tensor) for slot in slots} & kept.keys()
    return sum(each.nbytes for key in ids for each in kept[key][1].values() if isinstance(each, Tensor))


def audit(layout: Layout, optimizer: Optimizer, frozen: Sequence[Slot]) -> list[str]:
    """Return what is wrong: parameters that train and are in no group or in several, frozen ones that a step moves."""
    where: dict[int, list[int]] = {}
    for index, group in enumerate(optimizer.param_groups):
        for each in group["params"]:
            where.setdefault(id(each), []).append(index)
    wrong = []
    for slot in {id(slot.tensor): slot for slot in reversed(layout.slots) if slot.trains}.values():
        found = where.get(id(slot.tensor), [])
        if not found:
            wrong.append(f"{slot.path}: trains, but is in no group of the optimizer, so that no step moves it")
        elif len(found) > 1:
            wrong.append(f"{slot.path}: is in groups {', '.join(map(str, found))} of the optimizer, and moves twice")
    return wrong + _moved_by_a_step(optimizer, [slot for slot in frozen if id(slot.tensor) in where])


def _moved_by_a_step(optimizer: Optimizer, frozen: list[Slot]) -> list[str]:
    """Let a copy of the optimizer, of its state and of its parameters make a step; say which frozen ones that moves."""
    ours = [tensor for slot in frozen if (tensor := slot.tensor) is not None]
    memo: dict[int, Any] = {}
    twin = _twin(optimizer, memo)
    twins = [memo[id(tensor)] for tensor in ours]
    before = digests(twins)
    try:
        twin.step(lambda: torch.zeros(()))  # type: ignore[arg-type, return-value] # only LBFGS needs one
    except Exception as error:
        return [f"a step of the optimizer could not be tried: {type(error).__name__}: {error}"]
    return [
        f"{slot.path}: a step of the optimizer moves it, by its {'gradient' if tensor.grad is not None else 'state'}"
        for slot, tensor, was, now in zip(frozen, ours, before, digests(twins), strict=True)
        if was != now
    ]


def _twin(optimizer: Optimizer, memo: dict[int, Any]) -> Optimizer:
    """Return a copy of an optimizer on copies of its parameters, which it enters in `memo`; without hooks."""
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        twin_of = parameter.detach().clone().requires_grad_(parameter.requires_grad)
        twin_of.grad = None if parameter.grad is None else parameter.grad.detach().clone()
        memo[id(parameter)] = twin_of
    for _, tensor in leaves(list(optimizer.state.values())):
        if isinstance(tensor, Tensor):  # clone(), because deepcopy() cannot do DTensors
            memo.setdefault(id(tensor), tensor.detach().clone())
    # Not deepcopy(optimizer): that copies less than LBFGS needs. What is callable are patches of step() by schedulers.
    own = {key: value for key, value in vars(optimizer).items() if "hooks" not in key and not callable(value)}
    twin: Optimizer = object.__new__(type(optimizer))
    twin.__setstate__(copy.deepcopy(own, memo))
    return twin
