"""Tensors without values that stand in for arguments and outputs, for any number of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hookline.address import leaves, map_leaves
from hookline.core import AFTER, KWARGS, Hook
from hookline.errors import FreezeError
from hookline.freezing.cut import Cut
from hookline.freezing.example import Example
from hookline.intercept.module_site import attach_all


class StandIn:
    """The shape of a tensor for one sample, and how it grows with their number.

    Attributes:
        shape: for one sample.
        axis: the axis that grows in proportion; None when none does.
        dtype: of the tensor.
    """

    # Not a dataclass: in nested values those are containers.
    def __init__(self, shape: tuple[int, ...], axis: int | None, dtype: torch.dtype) -> None:
        self.shape = shape
        self.axis = axis
        self.dtype = dtype

    def filled(self, count: int, device: torch.device, *, dense: bool) -> Tensor:
        """Return a tensor for so many samples of NaN, or of 0 where there is none; `dense` in memory of its own."""
        shape = [size * count if axis == self.axis else size for axis, size in enumerate(self.shape)]
        nan = float("nan") if self.dtype.is_floating_point or self.dtype.is_complex else 0
        one = torch.full((), nan, dtype=self.dtype, device=device).expand(shape)
        return one.clone() if dense else one


class Recorded:
    """What a model is called with, and what its modules give up to a cut, as stand-ins.

    Recorded on two runs, with several samples and with one, which shows the axis of the samples in each tensor.

    Args:
        model: the model.
        cut: up to where.
        several: arguments of several samples.
        one: arguments of one of them.
        count: how many there are.

    Attributes:
        call: the positional arguments and those by name.
        answers: for each module before the cut what it gives, call by call.
        output: what the module of the cut gives.

    Raises:
        FreezeError: the two runs differ in more than the size of one axis of each tensor.
    """

    def __init__(self, model: nn.Module, cut: Cut, several: Example, one: Example, count: int) -> None:
        modules = (*cut.before, cut.module)
        both = zip(_outputs(model, modules, several), _outputs(model, modules, one), strict=True)
        answers = [_stand_ins(many, single, count) for many, single in both]
        self.call = _stand_ins([several.args, several.kwargs], [one.args, one.kwargs], count)
        self.answers = {id(module): given for module, given in zip(modules, answers, strict=True)}
        self.output = answers[-1][0]


def filled(value: Any, fill: Callable[[StandIn], Tensor]) -> Any:
    """Return a nested value with a tensor in the place of each stand-in."""
    return map_leaves(lambda _, leaf: fill(leaf) if isinstance(leaf, StandIn) else leaf, value)


def _outputs(model: nn.Module, modules: tuple[nn.Module, ...], example: Example) -> list[list[Any]]:
    """Run the model; return for each module the shapes of what it gave, call by call."""
    outputs: dict[int, list[Any]] = {id(module): [] for module in modules}

    def note(module: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
        outputs[id(module)].append(_shapes(output))

    handles = attach_all((module, Hook(AFTER, note, KWARGS), "forward") for module in modules)
    try:
        example.run(model)
    finally:
        for handle in handles:
            handle.remove()
    return [outputs[id(module)] for module in modules]


def _stand_ins(several: Any, one: Any, count: int) -> Any:
    single = [leaf for _, leaf in leaves(_shapes(one))]
    several = _shapes(several)
    if len(leaves(several)) != len(single):
        raise FreezeError("a module gives values of another structure for one sample than for several.")
    rest = iter(single)
    return map_leaves(lambda _, leaf: _stand_in(leaf, next(rest), count), several)


def _stand_in(many: Any, one: Any, count: int) -> Any:
    if not isinstance(many, Tensor):
        return many
    pairs = enumerate(zip(many.shape, one.shape, strict=False))
    growing = [axis for axis, (size, single) in pairs if size != single]
    if (
        many.dim() != one.dim()
        or len(growing) > 1
        or any(many.shape[axis] != count * one.shape[axis] for axis in growing)
    ):
        raise FreezeError(
            f"a module gives a tensor of shape {tuple(one.shape)} for one sample and {tuple(many.shape)} for {count}: "
            "not one axis that grows with their number."
        )
    return StandIn(tuple(one.shape), growing[0] if growing else None, many.dtype)


def _shapes(value: Any) -> Any:
    return map_leaves(lambda _, leaf: leaf.detach().to("meta") if isinstance(leaf, Tensor) else leaf, value)
