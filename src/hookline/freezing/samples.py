"""The samples of a data set, in its own order, each the same at every reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset, default_collate

from hookline.address import leaves
from hookline.errors import FreezeError
from hookline.freezing.example import Example
from hookline.freezing.probing import hashed

_READ_TWICE = 16
_CONSTANTS = (bool, int, float, type(None))


class Samples:
    """What a loader loads, batch by batch in the order of its data set.

    Args:
        loader: a DataLoader over a map-style data set, or such a data set.
        inputs: gives of a batch the arguments of the model; None takes the first item of a tuple, or the whole tensor.
        keep: gives of a batch what is to be kept beside the features; None takes the other items of a tuple.

    Raises:
        FreezeError: it has no order of samples that can be read again.
    """

    def __init__(
        self, loader: Any, inputs: Callable[[Any], Any] | None = None, keep: Callable[[Any], Any] | None = None
    ) -> None:
        self._inputs = inputs or _first
        self._keep = keep or _others
        self.dataset, self.batch_size, self._collate, self._workers = _parts(loader)

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, begin: int) -> Iterator[Any]:
        """Yield the batches from the sample `begin` on, unshuffled."""
        rest = Subset(self.dataset, range(begin, len(self)))
        return iter(DataLoader(rest, self.batch_size, collate_fn=self._collate, num_workers=self._workers))

    def batch(self, indices: Sequence[int]) -> Any:
        """Return one batch of these samples."""
        return self._collate([self.dataset[index] for index in indices])

    def example(self, batch: Any) -> Example:
        """Return the arguments of the model for a batch."""
        return Example.of(self._inputs(batch))

    def kept(self, batch: Any) -> tuple[Any, ...]:
        """Return what is kept of a batch beside the features."""
        kept = self._keep(batch)
        return tuple(kept) if isinstance(kept, (tuple, list)) else (kept,)

    def hash_of(self, index: int) -> str:
        """Return the hash of the input of one sample, read now."""
        return self.hashes(self.batch([index]), 1)[0]

    def hashes(self, batch: Any, count: int) -> list[str]:
        """Return the hash of the input of each sample of a batch."""
        example = self.example(batch)
        return [hashed(row) for row in rows([example.args, example.kwargs], count, "the input of the model")]

    def check_repeatable(self) -> None:
        """Raise FreezeError if a sample differs between two readings, or alone and in a batch."""
        for index in spread(len(self), _READ_TWICE):
            if self.hash_of(index) != self.hash_of(index):
                raise FreezeError(
                    f"sample {index} differs between two readings: augmentation makes other features each epoch, which "
                    "cannot be cached. Take the random transforms out, or put them behind the frozen part."
                )
        several = list(range(min(2, len(self))))
        if self.hashes(self.batch(several), len(several))[0] != self.hash_of(0):
            raise FreezeError(
                "the collate function makes another input of a sample in a batch than of the sample alone (padding?), "
                "so that its features depend on its neighbours: make all inputs of one shape."
            )


def rows(value: Any, count: int, what: str, *, constants: bool = True) -> list[list[Tensor]]:
    """Return for each of `count` samples its row of each tensor in a nested value.

    Raises:
        FreezeError: a leaf is neither a tensor whose first axis is the samples nor, where such are allowed, a constant.
    """
    found = leaves(value)
    for part, leaf in found:
        where = ".".join(map(str, part)) or "the value"
        if not isinstance(leaf, Tensor) and not (constants and isinstance(leaf, _CONSTANTS)):
            raise FreezeError(
                f"{what}: {where} is of type {type(leaf).__name__}, and only tensors can be told apart and stored by "
                "sample: make it a tensor, or leave it out with inputs= and keep=."
            )
        if isinstance(leaf, Tensor) and (not leaf.dim() or len(leaf) != count):
            raise FreezeError(
                f"{what}: {where} has shape {tuple(leaf.shape)} for {count} samples; the first axis must be that of "
                "the samples."
            )
    tensors = [leaf for _, leaf in found if isinstance(leaf, Tensor)]
    return [[tensor[index] for tensor in tensors] for index in range(count)]


def spread(length: int, count: int) -> list[int]:
    """Return up to `count` indices, spread evenly."""
    return sorted({index * (length - 1) // max(1, count - 1) for index in range(min(count, length))})


def _parts(loader: Any) -> tuple[Any, int, Callable[[Any], Any], int]:
    if isinstance(loader, DataLoader):
        if loader.batch_size is None:
            raise FreezeError("the loader makes no batches (batch_size=None); give one that does, or the data set.")
        dataset, size, collate, workers = loader.dataset, loader.batch_size, loader.collate_fn, loader.num_workers
    else:
        dataset, size, collate, workers = loader, 32, default_collate, 0
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise FreezeError(
            f"a {type(dataset).__name__} has no order in which its samples can be read again; cache() needs a data set "
            "with __getitem__ and __len__."
        )
    if not len(dataset):
        raise FreezeError("the data set is empty.")
    return dataset, size, collate, workers


def _first(batch: Any) -> Any:
    if isinstance(batch, Tensor):
        return batch
    if isinstance(batch, (tuple, list)) and batch and isinstance(batch[0], Tensor):
        return batch[0]
    kind = f"dict with {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__
    raise FreezeError(
        f"a batch is a {kind}, and which part of it the model is called with is not known: say so, as in "
        "inputs=lambda batch: {'input_ids': batch['input_ids']}, keep=lambda batch: batch['labels']."
    )


def _others(batch: Any) -> Any:
    return tuple(batch[1:]) if isinstance(batch, (tuple, list)) else ()
