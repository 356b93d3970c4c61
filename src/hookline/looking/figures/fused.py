"""Attention weights that a fused kernel never makes, computed again from its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hookline.errors import CallsError

if TYPE_CHECKING:
    from hookline.capturing import Features

FUSED = "scaled_dot_product_attention"
_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def recomputed(features: Features, address: str, call: int | None) -> tuple[Tensor, list[str]]:
    """Return the weights of a call of `scaled_dot_product_attention`, and what is to be said of them.

    softmax(q k^T s + mask), with s = 1 / sqrt(d) if none was given, as torch's documentation of the function has it.
    They are used only if they give the output that was captured.

    Args:
        features: they have to have `"<address>:input"` and `"<address>"`.
        address: of the function, such as `"attn/scaled_dot_product_attention"`.
        call: which call; None for the only one.

    Raises:
        CallsError: one of the two was not captured, or the weights do not reproduce the output.
    """
    given = _one(features, f"{address}:input", call)
    arguments: dict[str, Any] = given if isinstance(given, dict) else dict(zip(_NAMES, given, strict=False))
    output: Tensor = _one(features, address, call)
    query, key, value = (arguments[name].double() for name in _NAMES[:3])
    if arguments.get("enable_gqa"):
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    scale = arguments.get("scale")
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = _masked(scores, arguments)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    off = (weights @ value - output.double()).abs().max().item()
    largest = max(output.abs().max().item(), 1e-30)
    if not off <= 1e-2 * largest:
        raise CallsError(
            f"{address!r}: weights that are computed from q and k do not give its output (off by {off:.3g}): dropout "
            "was on, or something has changed the output. They are not drawn."
        )
    said = f"recomputed from q and k, for the fused kernel makes none; they reproduce its output within {off:.1g}"
    return weights.float(), [said]


def _masked(scores: Tensor, arguments: dict[str, Any]) -> Tensor:
    if arguments.get("is_causal"):
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return scores.masked_fill(~seen, -torch.inf)
    mask = arguments.get("attn_mask")
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask


def _one(features: Features, address: str, call: int | None) -> Any:
    try:
        return features[address] if call is None else features.calls(address)[call]
    except CallsError as error:
        raise CallsError(
            f"attention of a fused kernel needs both {address!r} and its output or input: {error}"
        ) from None
