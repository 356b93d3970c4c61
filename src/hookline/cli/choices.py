"""Values that options take, checked where they are read."""

from __future__ import annotations

from enum import Enum

from hookline.errors import CommandError


class Mode(Enum):
    """The mode to run a model in."""

    eval = "eval"
    train = "train"
    as_is = "as-is"


class Order(Enum):
    """The order in which the channels of a feature map are shown."""

    index = "index"
    energy = "energy"
    variance = "variance"


def parse_triple(text: str) -> tuple[float, float, float]:
    """Return three numbers, written `0.5,0.5,0.5`, or `0.5` for all three.

    Raises:
        CommandError: they are not.
    """
    parts = text.split(",")
    try:
        red, green, blue = (float(part) for part in (parts * 3 if len(parts) == 1 else parts))
    except ValueError:
        raise CommandError(f"expected one number or three with commas, such as 0.5,0.5,0.5, got {text!r}.") from None
    return red, green, blue
