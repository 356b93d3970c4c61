"""A progress bar for work that takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from hookline.errors import MissingExtraError

_Item = TypeVar("_Item")


def tracked(items: Iterable[_Item], what: str, *, total: int | None, show: bool | None = None) -> Iterator[_Item]:
    """Yield the items, with a progress bar on stderr while it goes on.

    Args:
        items: what is worked on, one after the other.
        what: the words beside the bar.
        total: how many items there are; None when it is not known.
        show: None shows the bar on a terminal where `rich` is installed; True insists on it, False does without.

    Raises:
        MissingExtraError: `show=True`, and `rich` is not installed.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield from items
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra
        from rich.progress import track  # noqa: PLC0415
    except ImportError:
        if show:
            raise MissingExtraError("a progress bar needs rich: pip install 'hookline[cli]'.") from None
        yield from items
        return
    # A console that is told it is a terminal shows the bar in a log file too: whoever insists gets it.
    console = Console(stderr=True, force_terminal=True if show else None)
    yield from track(items, what, total=total, console=console)
