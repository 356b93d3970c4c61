"""Feature maps: the channels of an image, beside each other or over the photo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from hookline.errors import HookTypeError
from hookline.looking.figures.ranges import scale_of
from hookline.looking.figures.sheet import Scale, Sheet, Theme
from hookline.looking.layer_table import number
from hookline.looking.report.sample import ordered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAP, _CAPTION, _WIDE = 8, 16, 1000


@dataclass(frozen=True)
class MapOptions:
    """How feature maps are drawn; see `Features.plot`."""

    order: Any
    cells: int
    limits: tuple[float, float] | None
    per_cell: bool
    smooth: bool
    theme: Theme


def grid(
    value: Tensor, title: str, said: list[str], options: MapOptions, words: dict[int, str], relevance: Tensor | None
) -> Figure:
    """Return the channels as cells, each with its number.

    Args:
        value: float32, shape (channel, height, width).
        title: what it is.
        said: what was chosen before.
        options: how.
        words: what is flagged, by channel.
        relevance: the gradient, of the same shape, by which channels are ordered with order="gradient".
    """
    channels = value.shape[0]
    if options.order == "gradient":
        if relevance is None:
            raise HookTypeError("order='gradient' needs the gradient: capture '<address>:output.grad' as well.")
        chosen = (value * relevance).flatten(1).sum(1).abs().argsort(descending=True, stable=True)
    else:
        chosen = ordered(value, options.order)
    chosen = chosen[: options.cells]
    cells = value[chosen]
    by = "gradient x activation" if options.order == "gradient" else options.order
    said = [*said, f"{len(cells)} of {channels} channels, by {by}"]
    scale, words_of_range = scale_of(cells, options.limits, options.theme)
    if options.per_cell:
        colours = words_of_range[1].replace("one range for all cells", "a range for each cell")
        words_of_range = [
            "range: of each cell alone, printed on it: cells cannot be compared",
            colours,
            *words_of_range[2:],
        ]
    factor = _factor(cells)
    said += [*words_of_range, _enlarged(factor, smooth=options.smooth)]
    height, width = (side * factor for side in cells.shape[1:])
    columns = max(1, min(len(cells), (_WIDE + _GAP) // (width + _GAP)))
    rows = -(-len(cells) // columns)
    step_x, step_y = width + _GAP, height + _GAP + _CAPTION
    sheet = Sheet(columns * step_x - _GAP, rows * step_y, title, said, options.theme, bar=not options.per_cell)
    for position, (channel, part) in enumerate(zip(chosen.tolist(), cells, strict=True)):
        own = scale_of(part, None, options.theme)[0] if options.per_cell else scale
        x, y = position % columns * step_x, position // columns * step_y
        _cell(
            sheet, x, y, part, own, factor, _caption(channel, part, words, own if options.per_cell else None), options
        )
    if not options.per_cell:
        sheet.colour_bar(scale)
    return sheet.figure


def overlay(heat: Tensor, photo: Any, title: str, said: list[str], options: MapOptions) -> Figure:
    """Return a map over the photo, whose pixels are as they are where the map is 0.

    Args:
        heat: float32, shape (height, width).
        photo: uint8 or float in [0, 1], shape (height, width, 3) or (3, height, width); a tensor, numpy array or image.
        title: what it is.
        said: what was chosen before.
        options: how.
    """
    pixels = _pixels(photo)  # (height, width, 3), float in [0, 1]
    scale, words = scale_of(heat, options.limits, options.theme)
    height, width = pixels.shape[:2]
    if options.smooth:
        large = functional.interpolate(heat[None, None], (height, width), mode="bilinear", align_corners=False)[0, 0]
    else:
        rows = torch.arange(height) * heat.shape[0] // height
        columns = torch.arange(width) * heat.shape[1] // width
        large = heat[rows][:, columns]
    strength = (large.abs().nan_to_num(0.0) / max(abs(scale.high), 1e-30)).clamp(0, 1)[..., None] * 0.65
    colours = torch.from_numpy(scale.colours(large)).float() / 255
    mixed = pixels * (1 - strength) + colours * strength
    shown = torch.where(strength > 0, (mixed * 255).round(), (pixels * 255).round()).to(torch.uint8)
    if not bool(heat.any()):
        said = [*said, "the map is 0 everywhere"]
    ratio = f"{height / heat.shape[0]:g} x {width / heat.shape[1]:g}"
    how = "smoothed (bilinear, on the values)" if options.smooth else "nearest"
    said = [
        *said,
        *words,
        f"enlarged {ratio}, {how}; the photo is shown as it is, and covered more where the map is larger",
    ]
    factor = max(1, round(440 / max(height, width)))
    sheet = Sheet(width * factor, height * factor, title, said, options.theme)
    sheet.image(0, 0, shown.numpy(), factor)
    sheet.colour_bar(scale)
    return sheet.figure


def _cell(
    sheet: Sheet, x: int, y: int, part: Tensor, scale: Scale, factor: int, caption: str, options: MapOptions
) -> None:
    if options.smooth:
        size = (part.shape[0] * factor, part.shape[1] * factor)
        large = functional.interpolate(part[None, None], size, mode="bilinear", align_corners=False)[0, 0]
        sheet.image(x, y, scale.colours(large), 1, caption=caption)
        return
    axes = sheet.image(x, y, scale.colours(part), factor, caption=caption)
    if factor >= 7:
        for row, column in (~part.isfinite()).nonzero().tolist():
            axes.text(column, row, "x", color="white", size=6, ha="center", va="center")


def _caption(channel: int, part: Tensor, words: dict[int, str], own: Scale | None) -> str:
    text = f"{channel}"
    flag = words.get(channel)
    if flag:
        text += f" {flag}"
    elif part.numel() and bool((part == part.flatten()[0]).all()):
        text += f" all {number(part.flatten()[0].item())}"
    if own is not None:
        text += f" {number(own.low)}..{number(own.high)}"
    other = int((~part.isfinite()).sum())
    return text + (f" x{other}" if other else "")


def _factor(cells: Tensor) -> int:
    wanted = 96 if len(cells) > 16 else 132 if len(cells) > 1 else 420
    return max(1, round(wanted / max(cells.shape[1:])))


def _enlarged(factor: int, *, smooth: bool) -> str:
    if smooth:
        return f"enlarged {factor} times and smoothed (bilinear, on the values, before colouring)"
    return f"enlarged {factor} times, nearest" if factor > 1 else "one pixel for each value"


def _pixels(photo: Any) -> Tensor:
    if not isinstance(photo, Tensor):
        try:
            import numpy as np  # noqa: PLC0415 - matplotlib brings it

            photo = torch.from_numpy(np.array(photo))
        except (TypeError, ValueError, RuntimeError) as error:
            raise HookTypeError(f"photo= takes a tensor, numpy array or image; got {type(photo).__name__}.") from error
    photo = photo.detach().cpu()
    if photo.dim() == 4 and photo.shape[0] == 1:
        photo = photo[0]
    if photo.dim() == 3 and photo.shape[0] == 3 and photo.shape[-1] != 3:
        photo = photo.movedim(0, -1)
    if photo.dim() != 3 or photo.shape[-1] != 3:
        raise HookTypeError(
            f"photo= takes the shape (height, width, 3) or (3, height, width), got {tuple(photo.shape)}."
        )
    pixels = photo.float() / 255 if photo.dtype == torch.uint8 else photo.float()
    if pixels.min() < 0 or pixels.max() > 1:
        raise HookTypeError(
            "photo= takes uint8, or numbers from 0 to 1: the photo itself, not what the model is given of it (which is "
            f"normalised); it has {number(float(pixels.min()))} to {number(float(pixels.max()))}."
        )
    checked: Tensor = pixels
    return checked
