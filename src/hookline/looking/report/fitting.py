"""How much of each tensor a report can draw within its size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hookline.capturing.budget import human
from hookline.looking.report.sample import Detail, Order, kept, levels_for
from hookline.looking.report.site import Site
from hookline.progress import tracked

# What a page has beside its pictures, and each module: measured, rounded up.
_PAGE = 400_000
_PER_SITE = 2_500


def draw_within(budget: int, sites: Sequence[Site], *, item: int, order: Order, tokens: Sequence[str]) -> list[str]:
    """Make the pictures of the sites as detailed as a file of so many bytes can hold; return what was chosen."""
    shapes = [tuple(source.tensor.shape) for site in sites for source in site.drawn]
    room = budget - _PAGE - _PER_SITE * len(sites)
    detail = next((level for level in levels_for(shapes, room) if _fits(sites, level, room, item, order, tokens)), None)
    if detail is None:
        return [f"no pictures: those of {len(shapes)} tensors do not fit into {human(budget)}; name fewer with at="]
    drawn = sum(kept(shape, detail) for shape in shapes)
    there = sum(math.prod(shape[1:] or shape) for shape in shapes)
    said = [f"pictures hold at most {detail.cells} channels of {detail.side} x {detail.side} values a tensor"]
    if drawn < there:
        said.append(
            f"{drawn / there:.0%} of {there:,} values are drawn, so that the file stays under {human(budget)}: "
            "each picture says what it leaves out, name fewer modules to see more of each; numbers are of all values"
        )
    return said


def _fits(sites: Sequence[Site], detail: Detail, room: int, item: int, order: Order, tokens: Sequence[str]) -> bool:
    """Make the pictures with this much detail, and return whether they fit; if not there are none."""
    many = len(sites) > 50  # else it is over before anybody looks
    for site in tracked(sites, "drawing", total=len(sites), show=None if many else False):
        site.draw(detail, item=item, order=order, tokens=tokens)
        room -= sum(map(len, site.data))
    if room < 0:
        for site in sites:
            site.clear()
    return room >= 0
