"""The paper of a figure: its ground, its title, its cells, its colour bar, and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from hookline.errors import MissingExtraError
from hookline.looking.layer_table import number
from hookline.looking.report.colours import coloured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Theme = Literal["light", "dark"]

DPI = 100
_MARGIN, _TITLE, _LINE, _BAR = 22, 40, 15, 46


@dataclass(frozen=True)
class Scale:
    """How values become colours, the same for all cells of a picture.

    Attributes:
        low: the value with the first colour.
        high: the value with the last.
        signed: whether 0 is in the middle of the map.
        theme: of the ground.
        masked: whether exact zeros are masked (attention).
    """

    low: float
    high: float
    signed: bool
    theme: Theme
    masked: bool = False

    def colours(self, values: Tensor) -> Any:
        """Return the colours of values, uint8 of shape (..., 3), as a numpy array."""
        return coloured(
            values, self.low, self.high, signed=self.signed, masked=self.masked, dark=self.theme == "dark"
        ).numpy()


@dataclass
class Sheet:
    """A figure that is laid out in pixels, so that each value of a map is a whole number of them.

    Attributes:
        width, height: of the body, in pixels.
        title: what is drawn.
        said: what was chosen, printed at the foot.
        theme: of the ground.
    """

    width: int
    height: int
    title: str
    said: Sequence[str]
    theme: Theme
    bar: bool = True
    figure: Figure = field(init=False)

    def __post_init__(self) -> None:
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("pictures need matplotlib: pip install 'hookline[look]'.") from None
        self._full = max(self.width, 420, 9 * len(self.title)) + 2 * _MARGIN
        self._lines = [line for each in self.said for line in wrap(each, max(40, self._full // 6))]
        foot = len(self._lines) * _LINE + (_BAR if self.bar else 0) + _MARGIN
        self._tall = _TITLE + self.height + foot + 12
        self.figure = Figure(figsize=(self._full / DPI, self._tall / DPI), dpi=DPI, facecolor=self.ground)
        self._text(_MARGIN, 14, self.title, 11, self.ink, weight="bold")
        for position, line in enumerate(self._lines):
            self._text(_MARGIN, self._tall - _MARGIN + 6 - (len(self._lines) - position) * _LINE, line, 7.5, self.muted)

    @property
    def ground(self) -> str:
        """The colour of the paper."""
        return "#ffffff" if self.theme == "light" else "#14171c"

    @property
    def ink(self) -> str:
        """The colour of text."""
        return "#1d2025" if self.theme == "light" else "#e6e9ee"

    @property
    def muted(self) -> str:
        """The colour of what is said beside."""
        return "#626a74" if self.theme == "light" else "#9aa3af"

    @property
    def accent(self) -> str:
        """The colour of bars and lines."""
        return "#3b6fd4" if self.theme == "light" else "#7aa5f5"

    def axes(self, x: int, y: int, width: int, height: int) -> Axes:
        """Return axes at a place of the body, in pixels from its top left corner."""
        bottom = self._tall - _TITLE - y - height
        box = (
            (x + _MARGIN) / self._full,
            bottom / self._tall,
            width / self._full,
            height / self._tall,
        )
        made = self.figure.add_axes(box, facecolor=self.ground)
        made.tick_params(colors=self.muted, labelsize=7, length=2)
        for spine in made.spines.values():
            spine.set_color(self.muted)
            spine.set_linewidth(0.6)
        return made

    def image(self, x: int, y: int, colours: Any, factor: int, *, down: int = 0, caption: str = "") -> Axes:
        """Draw colours of shape (height, width, 3) enlarged by whole factors, across and down; return the axes."""
        down = down or factor
        height, width = colours.shape[:2]
        axes = self.axes(x, y, width * factor, height * down)
        axes.imshow(colours, interpolation="nearest", aspect="auto")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        if caption:
            self._text(x + _MARGIN, _TITLE + y + height * down + 3, caption, 6.5, self.muted)
        return axes

    def colour_bar(self, scale: Scale, *, label: str = "") -> None:
        """Draw the colours with the values at their ends, and at 0."""
        length = 200
        top = self.height + 14
        steps = torch.linspace(scale.low, scale.high, length).clamp(scale.low, scale.high)
        if scale.low == scale.high:
            steps = torch.full((length,), scale.low)
        self.image(0, top, scale.colours(steps)[None].repeat(10, 0), 1)
        ends = [(0.0, number(scale.low)), (1.0, number(scale.high))]
        if scale.signed:
            ends.insert(1, (0.5, "0"))
        if scale.low == scale.high:
            ends = [(0.0, f"all {number(scale.low)}")]
        for share, text in ends:
            self._text(
                _MARGIN + share * length, _TITLE + top + 13, text, 7, self.ink, align="center" if share else "left"
            )
        if label:
            self._text(_MARGIN + length + 26, _TITLE + top - 1, label, 7.5, self.muted)

    def _text(
        self, x: float, y: float, text: str, size: float, colour: str, *, weight: str = "normal", align: str = "left"
    ) -> None:
        self.figure.text(
            x / self._full, 1 - y / self._tall, text, size=size, color=colour, weight=weight, ha=align, va="top"
        )
