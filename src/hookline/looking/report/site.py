"""One module as a report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hookline.address import Address, leaves
from hookline.looking.layer_table import LayerRow
from hookline.looking.report.channel_flags import ChannelFlags
from hookline.looking.report.histogram import histogram
from hookline.looking.report.packing import packed, rounded
from hookline.looking.report.sample import Detail, Order, Sample, sample, value_range

MOST_PICTURES = 4
"""How many tensors of one module are drawn: the numbers of further calls and parts are in the table."""


@dataclass(frozen=True)
class Source:
    """One tensor that a module gave.

    Attributes:
        address: its address.
        label: what it is called among the tensors of its module, such as "call 2"; "" for the only one.
        tensor: its value.
    """

    address: str
    label: str
    tensor: Tensor


@dataclass
class Site:
    """One module and its tensors.

    Attributes:
        path: the path of the module.
        rows: its rows of the layer table.
        sources: its tensors.
        channel_flags: the flags of the channels of each of them.
        flags: what was found here, a line each.
        data: the packed values of each picture, in the order of `pictures`.
        pictures: what the page's script has to know of each.
    """

    path: str
    rows: Sequence[LayerRow]
    sources: Sequence[Source]
    channel_flags: Sequence[ChannelFlags | None] = ()
    flags: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    pictures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def drawn(self) -> Sequence[Source]:
        """The tensors that have a picture."""
        return self.sources[:MOST_PICTURES]

    def draw(self, detail: Detail, *, item: int, order: Order, tokens: Sequence[str]) -> None:
        """Make the pictures of the tensors, as large as the detail allows."""
        for source, flags in zip(self.drawn, self.channel_flags, strict=False):
            found = sample(source.tensor, detail, item=item if _batched(source.tensor, item) else 0, order=order)
            if found is not None:
                self.pictures.append(_described(source, found, tokens, flags))
                self.data.append(packed(found.values))

    def clear(self) -> None:
        """Forget the pictures."""
        self.pictures.clear()
        self.data.clear()

    def to_dict(self, first: int) -> dict[str, Any]:
        """Return what the page's script has to know; its pictures' values are numbered from `first`."""
        row = self.rows[0]
        return {
            "path": self.path,
            "type": row.type,
            "shape": _shape(row.shape),
            "dtype": row.dtype,
            "flags": self.flags,
            "rows": [_facts(each) for each in self.rows],
            "pictures": [picture | {"data": first + number} for number, picture in enumerate(self.pictures)],
        }


def sources_of(path: str, calls: Sequence[Any]) -> list[Source]:
    """Return the tensors that a module gave in its calls, call by call."""
    found = []
    for number, value in enumerate(calls):
        for part, leaf in leaves(value):
            if isinstance(leaf, Tensor):
                where = Address(side="output", part=part) if part else Address()
                labels = [f"call {number + 1}"] if len(calls) > 1 else []
                labels += [".".join(map(str, part))] if part else []
                address = str(where.at("" if path == "." else path))
                found.append(Source(address, ", ".join(labels), leaf))
    return found


def _batched(tensor: Tensor, item: int) -> bool:
    return tensor.dim() > 1 and tensor.shape[0] > item


def _described(source: Source, found: Sample, tokens: Sequence[str], flags: ChannelFlags | None) -> dict[str, Any]:
    low, high, rule = value_range(rounded(found.values))
    cells, height, width = found.values.shape
    heads = is_attention(source.tensor, len(tokens))
    said = [line.replace("channels", "heads") if heads else line for line in found.said]
    is_tokens = found.kind == "matrix" and bool(tokens) and source.tensor.shape[-2] == len(tokens)
    return {
        "label": source.label,
        "address": source.address,
        "kind": found.kind,
        "shape": [cells, height, width],
        "channels": list(found.channels),
        "words": flags.words() if flags is not None and found.kind == "maps" else {},
        "cell": "head" if heads else "channel",
        "step": list(found.step),
        "index": list(found.index),
        "low": low,
        "high": high,
        "signed": low < 0,
        "said": [*said, f"range: {rule}"],
        "tokens": is_tokens or heads,
        "histogram": histogram(source.tensor),
        "full": _shape(tuple(source.tensor.shape)),
    }


def is_attention(tensor: Tensor, tokens: int) -> bool:
    """Return whether a tensor is attention over so many tokens: (batch, head, query, key), each row adds up to 1."""
    if tensor.dim() != 4 or not tokens or tuple(tensor.shape[-2:]) != (tokens, tokens):
        return False
    return bool(((tensor.float().sum(-1) - 1).abs() < 1e-3).all())


def _facts(row: LayerRow) -> dict[str, Any]:
    names = ("address", "dtype", "parameters", "frozen", "mode", "calls", "mean", "std", "rms", "min", "max")
    facts = {name: getattr(row, name) for name in (*names, "zero", "nonfinite", "dead", "channels")}
    return facts | {"shape": _shape(row.shape), "ms": row.time_s * 1e3}


def _shape(shape: tuple[int, ...] | None) -> str:
    return "no tensor" if shape is None else " x ".join(map(str, shape)) or "scalar"
