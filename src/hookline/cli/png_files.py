"""`--png FOLDER`: each place as a picture of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hookline.looking.report.observation import Observation
from hookline.looking.report.picture_file import save_picture
from hookline.looking.report.sample import Order
from hookline.progress import tracked


def save_pictures(folder: Path, seen: Observation, *, item: int, order: Order, tokens: Sequence[str]) -> int:
    """Draw each tensor of an observed run into a file that is called after its address; return how many there are."""
    number = 0
    sources = [source for site in seen.sites for source in site.sources]
    taken: set[str] = set()
    for source in tracked(sources, "drawing", total=len(sources)):
        name = _name(source.address + (f" {source.label}" if source.label else ""), taken)
        number += save_picture(folder / f"{name}.png", source, item=item, order=order, tokens=tokens)
    return number


def _name(text: str, taken: set[str]) -> str:
    """Return a file name that every system can have, and that is not taken."""
    name = "model" if text == "." else re.sub(r"[^\w.-]+", "_", text).strip(".") or "model"
    unique, count = name, 1
    while unique.lower() in taken:
        count += 1
        unique = f"{name}_{count}"
    taken.add(unique.lower())
    return unique
