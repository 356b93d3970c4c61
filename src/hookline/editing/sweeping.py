"""Many variants of one run in one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hookline.address import leaves, map_leaves
from hookline.editing.calling import called
from hookline.editing.plan import EditPlan, Entry
from hookline.editing.rows import of_rows
from hookline.editing.session import Edits
from hookline.errors import EditError, HookTypeError
from hookline.intercept.hookable import check_module
from hookline.progress import tracked

_RANDOM = (nn.modules.dropout._DropoutNd,)
_MIXING = (nn.modules.batchnorm._BatchNorm,)


def sweep(
    model: nn.Module,
    inputs: Any,
    plans: Sequence[EditPlan | Mapping[Any, Any]],
    *,
    batch: int | None = None,
    check: bool = True,
    progress: bool | None = None,
) -> list[Any]:
    """Run the model once on a copy of the input for each plan, each with its own edits; return the outputs by plan.

    The copies are stacked on axis 0, and each plan changes its own rows: equal to running the plans one by one, at the
    cost of one larger run. The grad mode is the caller's.

    Args:
        model: it must treat the rows of a batch apart.
        inputs: a tensor, a tuple of positional arguments, or a dict of keyword arguments. Each tensor in it has the
            batch on axis 0.
        plans: what to do in each variant; an empty plan is the run without edits.
        batch: at most so many rows in one run; None for all.
        check: run one of the plans alone as well, and raise if that gives something else.
        progress: show a progress bar; None on a terminal only.

    Returns:
        A list with the output of each plan, of the structure that the model gives.

    Raises:
        EditError: batch-norm or dropout is in train mode; the batch is not on axis 0; or, with `check`, the model mixes
            rows.
        NeverFiredError: an edit was never applied.
    """
    check_module(model)
    made = [plan if isinstance(plan, EditPlan) else EditPlan(plan) for plan in plans]
    if not made:
        raise HookTypeError("sweep() takes at least one plan.")
    _refuse(model)
    rows = _rows_of(inputs)
    if batch is not None and batch < rows:
        raise EditError(f"batch={batch} is less than the {rows} rows of one input.")
    per_run = len(made) if batch is None else batch // rows
    chunks = [made[start : start + per_run] for start in range(0, len(made), per_run)]
    outputs: list[Any] = []
    for chunk in tracked(chunks, "sweep", total=len(chunks), show=progress):
        outputs.extend(_run(model, inputs, chunk, rows))
    if check and len(made) > 1:
        _check(_run(model, inputs, made[:1], rows)[0], outputs[0])
    return outputs


def _run(model: nn.Module, inputs: Any, plans: Sequence[EditPlan], rows: int) -> list[Any]:
    stacked = map_leaves(
        lambda _, leaf: torch.cat([leaf] * len(plans)) if isinstance(leaf, Tensor) and leaf.dim() else leaf, inputs
    )
    entries = [
        replace(entry, rows=_within(entry, number * rows, rows)) for number, plan in enumerate(plans) for entry in plan
    ]
    with Edits(model, EditPlan(entries), scope="context", strict=True, allow_overlap=False):
        output = called(model, stacked)
    return [_part(output, number, rows, len(plans)) for number in range(len(plans))]


def _within(entry: Entry, start: int, rows: int) -> Any:
    """Return the rows of an edit among those of all copies."""
    if entry.rows is None:
        return slice(start, start + rows)
    return of_rows(torch.arange(rows), entry.rows) + start


def _part(output: Any, number: int, rows: int, plans: int) -> Any:
    def narrowed(_: Any, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.dim() == 0 or leaf.shape[0] != rows * plans:
            raise EditError(
                f"sweep() expects the batch of {rows * plans} on axis 0 of each tensor of the output, got the shape "
                f"{tuple(leaf.shape)}. Run the plans one by one with hookline.edit."
            )
        return leaf[number * rows : (number + 1) * rows]

    return map_leaves(narrowed, output)


def _rows_of(inputs: Any) -> int:
    sizes = {leaf.shape[0] for _, leaf in leaves(inputs) if isinstance(leaf, Tensor) and leaf.dim()}
    if len(sizes) != 1:
        raise EditError(
            f"sweep() expects tensors with one batch on axis 0 in the input, got batches of {sorted(sizes)}."
        )
    return int(sizes.pop())


def _refuse(model: nn.Module) -> None:
    for path, module in model.named_modules():
        if module.training and isinstance(module, _MIXING):
            raise EditError(
                f"{path} ({type(module).__name__}) is in train mode, where it mixes the rows: call model.eval()."
            )
        if module.training and isinstance(module, _RANDOM) and module.p:
            raise EditError(
                f"{path} ({type(module).__name__}) is in train mode, where it is random: call model.eval()."
            )


def _check(alone: Any, stacked: Any) -> None:
    for (part, one), (_, other) in zip(leaves(alone), leaves(stacked), strict=True):
        if isinstance(one, Tensor) and not _close(one, other):
            where = f" at {'.'.join(map(str, part))!r}" if part else ""
            off = (one.double() - other.double()).abs().max().item()
            raise EditError(
                f"the first plan gives something else alone than among the others{where} (by up to {off:.3g}): the "
                "model mixes the rows of a batch, or is random. Run the plans one by one with hookline.edit."
            )


def _close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    # Kernels for other batch sizes add up in another order.
    scale = float(one.detach().abs().max()) if one.numel() else 0.0
    tolerance = 1e-4 if one.dtype in (torch.float32, torch.complex64) else 1e-9 if one.dtype is torch.float64 else 2e-2
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance * max(scale, 1e-30), equal_nan=True)
