"""`Features.plot`: a picture of what was captured, with what was chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from hookline.address import leaves
from hookline.errors import CallsError, HookTypeError
from hookline.looking.figures import charts, matrices
from hookline.looking.figures.fused import FUSED, recomputed
from hookline.looking.figures.kinds import KINDS, Kind, check_kind, is_attention, kind_of
from hookline.looking.figures.maps import MapOptions, grid, overlay
from hookline.looking.figures.sheet import Theme
from hookline.looking.report.cam import cam_of
from hookline.looking.report.channel_flags import channel_flags

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hookline.capturing import Features

_OVER_PLACES = {"depth", "tokens"}


def plot(
    features: Features,
    address: str | None,
    kind: Kind | None,
    *,
    item: int = 0,
    call: int | None = None,
    order: Any = "index",
    cells: int = 64,
    limits: tuple[float, float] | None = None,
    per_cell: bool = False,
    smooth: bool = False,
    photo: Any = None,
    tokens: Sequence[str] = (),
    head: int | None = None,
    prefix: int = 1,
    label: str = "",
    theme: Theme = "light",
) -> Figure:
    """Return the picture; see `Features.plot`."""
    check_kind(kind)
    if theme not in ("light", "dark"):
        raise HookTypeError(f"theme= is 'light' or 'dark', got {theme!r}.")
    if order not in ("index", "energy", "variance", "gradient"):
        raise HookTypeError(f"order= is 'index', 'energy', 'variance' or 'gradient', got {order!r}.")
    if address is None or kind in _OVER_PLACES:
        return _over_places(features, address, kind, item=item, tokens=tokens, limits=limits, theme=theme)
    value, said = _value(features, address, call)
    chosen = kind if kind is not None else _chosen(value, photo, said)
    title = f"{address}   {' x '.join(map(str, value.shape)) or 'scalar'}" + (f"   {label}" if label else "")
    if chosen == "histogram":
        return charts.distribution(value, title, said, theme=theme)
    one = _one(value, item, said)
    if chosen == "bars":
        return charts.bars(_single(one.flatten(), said), title, said, theme=theme)
    if chosen == "attention":
        return _attention(address, one, title, said, tokens, head, limits, theme)
    if chosen == "matrix":
        flat = _single(one, said).reshape(-1, one.shape[-1])
        return matrices.matrix(flat, title, said, rows=tokens, columns=[], limits=limits, theme=theme)
    maps, gradient = _as_maps(one, said, prefix), None
    if chosen in {"cam", "gradient"} or order == "gradient":
        gradient = _as_maps(_one(_value(features, _gradient_of(address), call)[0], item, []), [], prefix)
    options = MapOptions(order, cells, limits, per_cell, smooth, theme)
    if chosen == "maps":
        return grid(maps, title, said, options, _flags(value), gradient)
    return overlay(_heat(chosen, maps, gradient, said), _needed(photo, maps, said), title, said, options)


def _chosen(value: Tensor, photo: Any, said: list[str]) -> Kind:
    chosen, why = ("overlay", "a photo was given") if photo is not None and value.dim() == 4 else kind_of(value)
    said.append(f"kind: {chosen}, since {why}")
    return cast("Kind", chosen)


def _value(features: Features, address: str, call: int | None) -> tuple[Tensor, list[str]]:
    """Return the one tensor that was captured at an address."""
    if address.endswith(FUSED) or FUSED + "#" in address:
        return recomputed(features, address, call)
    calls = features.calls(address)
    said: list[str] = []
    if call is None:
        found = features[address]
    else:
        if not -len(calls) <= call < len(calls):
            raise CallsError(f"{address!r} has {len(calls)} calls, and call={call} is asked for.")
        found = calls[call]
        said.append(f"call {call % len(calls)} of {len(calls)}")
    tensors = [(part, leaf) for part, leaf in leaves(found) if isinstance(leaf, Tensor)]
    if len(tensors) != 1:
        names = ", ".join(f"'{address}:output.{'.'.join(map(str, part))}'" for part, _ in tensors[:3])
        raise CallsError(f"{address!r} has {len(tensors)} tensors; capture and plot one of them, such as {names}.")
    value = tensors[0][1].detach()
    if value.is_complex() or value.is_meta or value.layout is not torch.strided or not value.numel():
        raise CallsError(f"{address!r} has no real values that could be drawn ({value.dtype}, {value.layout}).")
    return value.cpu(), said


def _one(value: Tensor, item: int, said: list[str]) -> Tensor:
    """Return one of the batch."""
    if value.dim() < 2:
        return value
    if not -value.shape[0] <= item < value.shape[0]:
        raise CallsError(f"item={item}, and the batch has {value.shape[0]}.")
    if value.shape[0] > 1:
        said.append(f"number {item % value.shape[0]} of a batch of {value.shape[0]}")
    return value[item]


def _single(value: Tensor, said: list[str]) -> Tensor:
    single = value.float()
    lost = int((value.isfinite() & ~single.isfinite()).sum()) if value.is_floating_point() else 0
    if lost:
        said.append(f"{lost} finite values beyond 3.4e38 are drawn as infinite")
    return single


def _as_maps(one: Tensor, said: list[str], prefix: int) -> Tensor:
    """Return (channel, height, width); the tokens of a vision transformer are folded back to the image."""
    if one.dim() == 2:
        side = round((one.shape[0] - prefix) ** 0.5)
        if one.shape[0] - prefix != side * side or not side:
            raise HookTypeError(
                f"{one.shape[0]} tokens without the first {prefix} are no square image: give prefix=, the number of "
                "class and register tokens, or kind='matrix'."
            )
        said.append(f"tokens folded to {side} x {side}, without the first {prefix} (class and register tokens)")
        one = one[prefix:].t().reshape(-1, side, side)
    while one.dim() > 3:
        one = one.select(1, 0)
        said.append("of an axis between channel and height the first entry")
    if one.dim() != 3:
        raise HookTypeError(f"feature maps need the shape (batch, channel, height, width), got {one.dim() + 1} axes.")
    return _single(one, said)


def _heat(kind: str, maps: Tensor, gradient: Tensor | None, said: list[str]) -> Tensor:
    """Return one map of all channels, shape (height, width)."""
    if kind == "cam":
        assert gradient is not None
        said.append("Grad-CAM: relu(sum_k alpha_k A_k), alpha_k the mean of the gradient over all places")
        return cam_of(maps, gradient)
    if kind == "gradient":
        assert gradient is not None
        said.append("gradient x activation, summed over channels")
        return (gradient * maps).sum(0)
    said.append(f"the root mean square over {maps.shape[0]} channels" if maps.shape[0] > 1 else "the one channel")
    return maps.square().mean(0).sqrt() if maps.shape[0] > 1 else maps[0]


def _needed(photo: Any, maps: Tensor, said: list[str]) -> Any:
    if photo is not None:
        return photo
    said.append("no photo= was given: the map on white")
    height, width = maps.shape[1:]
    factor = max(1, 224 // max(height, width))
    return torch.ones(height * factor, width * factor, 3)


def _flags(value: Tensor) -> dict[int, str]:
    flags = channel_flags(value, nn.Identity())
    return {} if flags is None else flags.words()


def _gradient_of(address: str) -> str:
    return f"{address}.grad" if ":" in address else f"{address}:output.grad"


def _attention(
    address: str,
    weights: Tensor,
    title: str,
    said: list[str],
    tokens: Sequence[str],
    head: int | None,
    limits: tuple[float, float] | None,
    theme: Theme,
) -> Figure:
    if weights.dim() != 3:
        raise HookTypeError(f"attention has the shape (batch, head, query, key), got {weights.dim() + 1} axes.")
    weights = weights.float()
    if head is None:
        return matrices.heads([(address, weights)], title, said, limits=limits, theme=theme)
    if not -weights.shape[0] <= head < weights.shape[0]:
        raise CallsError(f"head={head}, and there are {weights.shape[0]}.")
    said.append(f"head {head % weights.shape[0]} of {weights.shape[0]}; query down, key across")
    names = list(tokens)
    return matrices.matrix(
        weights[head], title, said, rows=names, columns=names, limits=limits, theme=theme, masked=True
    )


def _over_places(
    features: Features,
    address: str | None,
    kind: Kind | None,
    *,
    item: int,
    tokens: Sequence[str],
    limits: tuple[float, float] | None,
    theme: Theme,
) -> Figure:
    """Return a picture of all places: statistics over depth, tokens by layers, attention by layers and heads."""
    if address is not None:
        raise HookTypeError(f"kind={kind!r} is a picture of all places that were captured: leave the address out.")
    tensors = {name: _value(features, name, 0)[0] for name in features if _is_one_tensor(features, name)}
    if not tensors:
        raise CallsError("nothing was captured that could be drawn.")
    values = {name: value for name, value in tensors.items() if not name.endswith(".grad")}
    tensors = values or tensors  # gradients are of another size: they are drawn where there is nothing else
    said = [f"{len(tensors)} places; of a place that was called several times the first call"]
    if kind in (None, "depth"):
        return charts.depth([(name, value.float()) for name, value in tensors.items()], "over depth", said, theme=theme)
    said += [f"number {item} of the batch"]
    if kind == "attention":
        layers = [(name, value[item].float()) for name, value in tensors.items() if is_attention(value)]
        if not layers:
            raise CallsError("no attention was captured: capture its weights, such as 'h.*.attn/softmax'.")
        return matrices.heads(layers, "attention by layer and head", said, limits=limits, theme=theme)
    if kind != "tokens":
        raise HookTypeError(f"without an address kind= is 'depth', 'tokens' or 'attention'; got {kind!r} of {KINDS}.")
    columns = {name: value[item].float().norm(dim=-1) for name, value in tensors.items() if value.dim() == 3}
    longest = max((len(column) for column in columns.values()), default=0)
    columns = {name: column for name, column in columns.items() if len(column) == longest}
    if not columns:
        raise CallsError("no place gave (batch, position, d_model): there are no tokens to draw.")
    said.append("the norm of each token's vector, tokens down, places across")
    return matrices.matrix(
        torch.stack([*columns.values()], 1),
        "tokens by layers",
        said,
        rows=list(tokens),
        columns=list(columns),
        limits=limits,
        theme=theme,
    )


def _is_one_tensor(features: Mapping[str, Any], name: str) -> bool:
    calls = features.calls(name)  # type: ignore[attr-defined]
    found = [leaf for _, leaf in leaves(calls[0]) if isinstance(leaf, Tensor)] if calls else []
    return len(found) == 1 and found[0].numel() > 0 and not found[0].is_complex() and not found[0].is_meta
