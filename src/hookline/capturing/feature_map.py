"""What was captured, by address."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hookline.address import leaves, parse
from hookline.address.nearest import nearest
from hookline.capturing.options import converted
from hookline.capturing.report import CaptureReport
from hookline.capturing.values import HeldValues, Values
from hookline.errors import AddressError, CallsError, HookTypeError

if TYPE_CHECKING:
    from hookline.capturing.session import Session


class Features(Mapping[str, Any]):
    """A mapping from address to captured value, in the order in which the model registers its modules.

    `features["layer3"]` is the value of the one call of that site; a site that was called more often, or never, is a
    `CallsError`, and `features.calls("layer3")` has all its values. Addresses that were captured with a wildcard are
    there one by one. Iterating gives the addresses of the sites that were called.
    """

    def __init__(self, sites: Mapping[str, Values], session: Session | None = None) -> None:
        self._sites = sites
        self._session = session

    def remove(self) -> None:
        """Stop capturing; what was captured stays."""
        if self._session is not None:
            self._session.remove()

    def __enter__(self) -> Features:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._session is not None and self._session.leave(error)

    def __getitem__(self, address: str) -> Any:
        name, site = self._site(address)
        values = site.values(recomputed=False)
        if site.gathers or len(values) == 1:
            return values[0]
        if not values:
            raise CallsError(f"{name!r} was not called while it was captured: {site.why_silent()}")
        raise CallsError(
            f"{name!r} was called {len(values)} times: features.calls({name!r}) has all values in the order of the "
            "calls; keep='last' keeps the last."
        )

    def calls(self, address: str, *, recomputed: bool = False) -> tuple[Any, ...]:
        """Return the values of a site, one for each call, in their order.

        Args:
            address: an address that was captured.
            recomputed: return those of the calls by which activation checkpointing repeats earlier ones instead.
        """
        return self._site(address)[1].values(recomputed=recomputed)

    def _site(self, address: str) -> tuple[str, Values]:
        name = _canonical(address)
        if name in self._sites:
            return name, self._sites[name]
        for site in self._sites.values():
            if name in map(_canonical, site.names):
                return _canonical(site.names[0]), site
        near = nearest(name, self._sites)
        hint = f"; the nearest: {', '.join(map(repr, near))}" if near else ""
        raise CallsError(f"{name!r} was not captured{hint}.")

    def __iter__(self) -> Iterator[str]:
        return (name for name, site in self._sites.items() if site.fired)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, address: object) -> bool:
        try:
            return isinstance(address, str) and bool(self._site(address)[1].fired)
        except (AddressError, CallsError):
            return False

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Features:
        """Return the features on another device or of another dtype (floating point and complex tensors only)."""
        return Features(
            {
                name: HeldValues.of(
                    site, tuple(converted(value, device, dtype) for value in site.values(recomputed=False))
                )
                for name, site in self._sites.items()
            }
        )

    def save(self, path: str | Path) -> None:
        """Write the features to a safetensors file, which `hookline.load_features` reads.

        Its metadata has the addresses, the calls, the structure of each value and the hash of the model's structure.
        Values of recomputed calls are not written.

        Raises:
            MissingExtraError: safetensors is not installed.
            CaptureError: a value cannot be saved; the message says which and why. Nothing is written then.
        """
        from hookline.capturing.file import save  # noqa: PLC0415 - needs an extra

        save(self._sites, Path(path))

    def plot(self, address: str | None = None, kind: str | None = None, **options: Any) -> Any:
        """Return a matplotlib `Figure` of what was captured; what was chosen for it is printed at its foot.

        Without `kind` it is chosen from the shape. Of one place: "maps" (channels of an image, flagged where they are
        dead, constant or equal), "overlay" (over `photo`), "cam" (Grad-CAM) and "gradient" (gradient x activation),
        for which `"<address>:output.grad"` of the class's score has to be captured too, "matrix", "attention",
        "histogram", "bars". Without an address, of all places: "depth" (statistics), "tokens" (norms, tokens by
        layers), "attention".

        Args:
            address: what to draw.
            kind: how.
            options: `item`: which of the batch. `call`: which call, of several. `cells`: at most so many channels.
                `order`: of channels, "index", "energy", "variance" or "gradient" (gradient x activation). `limits`:
                (low, high), to lock the range over pictures; by default the 0.5 to 99.5 percentile of all that is
                drawn. `per_cell`: a range for each cell, printed on it. `smooth`: bilinear instead of nearest.
                `photo`: uint8 or 0 to 1. `tokens`: names. `head`: one head, large. `prefix`: class and register
                tokens before those of a vision transformer's image. `label`: said beside the address, such as the class
                of a Grad-CAM. `theme`: "light" or "dark".

        Raises:
            MissingExtraError: matplotlib is not installed.
            CallsError: the address was not captured, or has no one tensor to draw.
            HookTypeError: there is no such kind or option, or it does not fit the value.
        """
        # By name: pictures are a layer above, and features that nobody draws do not load them.
        draw = importlib.import_module("hookline.looking.figures").plot
        try:
            inspect.signature(draw).bind(self, address, kind, **options)
        except TypeError as error:
            raise HookTypeError(f"plot(): {error}.") from None
        return draw(self, address, kind, **options)

    def report(self) -> CaptureReport:
        """Return for each site how often it was called, the bytes of its values, and where they lie."""
        return CaptureReport.of(self._sites)

    def __repr__(self) -> str:
        lines = [f"  {name}: {_short(site)}" for name, site in self._sites.items()]
        return "\n".join([f"<Features of {len(self._sites)} sites>", *lines])

    def _repr_html_(self) -> str:
        return self.report().to_html()


def _canonical(address: str) -> str:
    """Return the address as the features spell it: an output as a whole is meant without `:output`."""
    return str(parse(address)).removesuffix(":output")


def _short(site: Values) -> str:
    """Return the shapes of a site's first value, and how many there are."""
    values = site.values(recomputed=False)
    if not values:
        return "not called"
    if site.gathers:
        return f"{values[0]!r:.110}"
    shown = []
    for part, leaf in leaves(values[0])[:3]:
        name = f"{'.'.join(map(str, part))}=" if part else ""
        if isinstance(leaf, Tensor):
            shown.append(f"{name}{tuple(leaf.shape)} {str(leaf.dtype).removeprefix('torch.')}")
        else:
            shown.append(f"{name}{leaf!r:.60}")
    more = ", ..." if len(leaves(values[0])) > 3 else ""
    return ", ".join(shown) + more + (f"  x {len(values)} calls" if len(values) > 1 else "")
