"""Grad-CAM: where in a photo the evidence for a class lies.

With A_k the channels of a layer's output and y the score of the class,

    cam = relu(sum_k alpha_k A_k),  alpha_k = mean over all places of dy / dA_k

Source: Selvaraju et al. 2017, "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hookline.address import Address
from hookline.core import Call
from hookline.errors import CaptureError
from hookline.hooks import Hooks
from hookline.looking.report.hero import scores
from hookline.looking.report.observation import Observation
from hookline.looking.untouched import untouched


def last_maps(seen: Observation) -> str | None:
    """Return the path of the last module to give feature maps of more than one place, of those called once."""
    order = {path: position for position, path in enumerate(seen.table.finished)}
    sizes = {
        site.path: site.sources[0].tensor.shape
        for site in seen.sites
        if len(site.sources) == 1 and site.sources[0].tensor.dim() == 4 and site.sources[0].tensor.is_floating_point()
    }
    maps = [path for path, shape in sizes.items() if shape[2] * shape[3] > 1]
    return max(maps, key=lambda path: order.get(path, -1), default=None)


def class_map(
    model: nn.Module,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    path: str,
    *,
    target: int,
    classes: int,
    item: int,
) -> Tensor:
    """Return Grad-CAM of the output of the module at `path`, shape (height, width), not negative.

    Parameters, their gradients, buffers and random numbers are afterwards what they were.

    Args:
        model: a classifier.
        inputs: its positional arguments.
        kwargs: its keyword arguments.
        path: of a module that gives (batch, channel, height, width), in one call.
        target: the class.
        classes: how many there are: by that the scores are found in the model's output.
        item: which of the batch.

    Raises:
        CaptureError: no gradient of the score reaches the module.
    """
    kept: list[Tensor] = []

    def keep(call: Call) -> Tensor:
        kept.append(call.output if call.output.requires_grad else call.output.detach().requires_grad_())
        return kept[-1].clone()  # what comes next may write to its input: to the clone, not to what is kept

    with torch.enable_grad(), untouched(model), Hooks(model) as hooks:
        hooks.after(Address().at("" if path == "." else path), keep, priority=float("-inf"))
        output = model(*inputs, **kwargs)
        score = scores(output, classes)[item, target]
        (slope,) = torch.autograd.grad(score, kept[-1:], allow_unused=True)
    if slope is None:
        raise CaptureError(f"the score does not depend on the output of {path!r}.")
    return cam_of(kept[-1].detach()[item], slope[item])


def cam_of(activation: Tensor, gradient: Tensor) -> Tensor:
    """Return Grad-CAM, shape (height, width), of an activation and its gradient, each (channel, height, width)."""
    weights = gradient.mean((1, 2), keepdim=True)  # (channel, 1, 1)
    return (weights * activation).sum(0).relu()
