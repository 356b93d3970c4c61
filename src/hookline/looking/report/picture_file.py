"""A picture of one tensor as an image file, with its numbers, its colour bar and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import torch
from torch import Tensor

from hookline.errors import MissingExtraError
from hookline.looking.layer_table import number
from hookline.looking.report.colours import SEQUENTIAL, SIGNED_LIGHT, coloured
from hookline.looking.report.sample import Detail, Order, Sample, sample, value_range
from hookline.looking.report.site import Source, is_attention

_DETAIL = Detail(64, 224, 1_000_000)
_MARGIN, _GAP, _LINE, _BAR = 16, 8, 16, 220
_INK, _MUTED, _GROUND, _BARS = (29, 32, 37), (98, 106, 116), (255, 255, 255), (74, 118, 212)


def save_picture(
    path: Path, source: Source, *, item: int = 0, order: Order = "index", tokens: Sequence[str] = ()
) -> bool:
    """Draw a tensor into a PNG file: the values nearest, enlarged by whole factors, never smoothed.

    Args:
        path: the file.
        source: the tensor, and its address.
        item: which of the batch.
        order: of the channels.
        tokens: the words of the input, by which attention is told.

    Returns:
        Whether there was something to draw.

    Raises:
        MissingExtraError: pillow or matplotlib is not installed.
    """
    tensor = source.tensor
    found = sample(tensor, _DETAIL, item=item if tensor.dim() > 1 and item < tensor.shape[0] else 0, order=order)
    if found is None:
        return False
    _Sheet(source, found, masked=is_attention(tensor, len(tokens))).save(path)
    return True


@dataclass
class _Sheet:
    """A sheet of paper: a title, the cells, the colour bar, what was chosen.

    Attributes:
        source: what is drawn.
        found: its values.
        masked: whether exact zeros are masked.
    """

    source: Source
    found: Sample
    masked: bool

    def __post_init__(self) -> None:
        self.values = self.found.values.to("cpu", torch.float32)
        self.low, self.high, self.rule = value_range(self.values)
        self.signed = self.low < 0

    def save(self, path: Path) -> None:
        body = self._bars() if self.found.kind == "vector" else self._cells()
        width = max(body.width, 520) + 2 * _MARGIN
        said = [line for each in self._said() for line in wrap(each, width // 7)]
        sheet, pen = _paper(width, body.height + (4 + len(said)) * _LINE + 2 * _MARGIN)
        pen.text((_MARGIN, _MARGIN), self._title(), _INK)
        sheet.paste(body, (_MARGIN, _MARGIN + _LINE + _GAP))
        top = _MARGIN + _LINE + 2 * _GAP + body.height
        if self.found.kind != "vector":
            self._colour_bar(sheet, pen, top)
        for position, line in enumerate(said):
            pen.text((_MARGIN, top + int(1.4 * _LINE) + position * _LINE), line, _MUTED)
        sheet.save(path)

    def _title(self) -> str:
        label = f", {self.source.label}" if self.source.label else ""
        return f"{self.source.address}{label}   {' x '.join(map(str, self.source.tensor.shape))}"

    def _said(self) -> list[str]:
        if self.found.kind == "vector":
            return [
                *self.found.said,
                f"bars from 0, from {self._number(self.values.min())} to {self._number(self.values.max())}",
            ]
        beyond = f"{int((self.values < self.low).sum())} below, {int((self.values > self.high).sum())} above"
        other = int((~self.values.isfinite()).sum())
        colours = f"{SIGNED_LIGHT}, 0 in its middle" if self.signed else SEQUENTIAL
        lines = [*self.found.said, f"range: {self.rule}; {beyond}", f"colours: {colours}, one range for all cells"]
        return [*lines, f"{other} values are not finite: magenta, x"] if other else lines

    def _cells(self) -> Any:
        cells, height, width = self.values.shape
        factor = max(1, round((96 if cells > 16 else 132 if cells > 1 else 480) / max(height, width)))
        columns = min(cells, max(1, 1100 // (width * factor + _GAP)))
        step_x, step_y = width * factor + _GAP, height * factor + _GAP + (_LINE if cells > 1 else 0)
        sheet, pen = _paper(columns * step_x - _GAP, -(-cells // columns) * step_y)
        for cell in range(cells):
            x, y = cell % columns * step_x, cell // columns * step_y
            part = self.values[cell]
            sheet.paste(_image(self._coloured(part), factor), (x, y))
            for row, column in (~part.isfinite()).nonzero().tolist() if factor >= 6 else ():
                pen.text((x + column * factor + factor // 2 - 3, y + row * factor + factor // 2 - 6), "x", _GROUND)
            if cells > 1:
                pen.text((x, y + height * factor + 1), self._caption(cell, part), _MUTED)
        return sheet

    def _caption(self, cell: int, part: Tensor) -> str:
        other = int((~part.isfinite()).sum())
        alike = f"  all {self._number(part[0, 0])}" if part.numel() and bool((part == part[0, 0]).all()) else ""
        return f"{self.found.channels[cell]}{alike}" + (f"  x {other}" if other else "")

    def _coloured(self, part: Tensor) -> Tensor:
        return coloured(part, self.low, self.high, signed=self.signed, masked=self.masked)

    def _colour_bar(self, sheet: Any, pen: Any, top: int) -> None:
        left = _MARGIN + pen.textlength(self._number(self.low)) + _GAP
        pen.text((_MARGIN, top), self._number(self.low), _INK)
        steps = torch.linspace(self.low, self.high, _BAR) if self.high > self.low else torch.full((_BAR,), self.low)
        steps = steps.clamp(self.low, self.high)  # linspace may overstep its end by a rounding error
        sheet.paste(
            _image(coloured(steps, self.low, self.high, signed=self.signed)[None].expand(12, -1, -1), 1),
            (int(left), top),
        )
        pen.text((int(left) + _BAR + _GAP, top), self._number(self.high), _INK)

    def _bars(self) -> Any:
        values = self.values.flatten().nan_to_num(0.0, 0.0, 0.0)
        wide, tall = max(1, 760 // len(values)), 160
        sheet, pen = _paper(wide * len(values), tall)
        bottom, top = min(0.0, values.min().item()), max(0.0, values.max().item())
        heights = ((top - values) / ((top - bottom) or 1.0) * (tall - 1)).round().int().tolist()
        zero = round(top / ((top - bottom) or 1.0) * (tall - 1))
        for position, height in enumerate(heights):
            box = (position * wide, min(height, zero), position * wide + max(0, wide - 2), max(height, zero))
            pen.rectangle(box, fill=_BARS)
        for position in (~self.values.flatten().isfinite()).nonzero().flatten().tolist():
            pen.rectangle((position * wide, 0, position * wide + max(0, wide - 2), tall), fill=(255, 0, 168))
        return sheet

    @staticmethod
    def _number(value: float | Tensor) -> str:
        return number(float(value))


def _paper(width: int, height: int) -> tuple[Any, Any]:
    image, draw = _pillow()
    sheet = image.new("RGB", (int(width), int(height)), _GROUND)
    return sheet, draw.Draw(sheet)


def _image(colours: Tensor, factor: int) -> Any:
    """Return colours, uint8 of shape (height, width, 3), as an image of whole pixels."""
    image, _ = _pillow()
    height, width, _ = colours.shape
    small = image.frombytes("RGB", (width, height), colours.contiguous().numpy().tobytes())
    return small.resize((width * factor, height * factor), image.Resampling.NEAREST)


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageDraw  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pictures need pillow: pip install 'hookline[look]'.") from None
    return Image, ImageDraw
