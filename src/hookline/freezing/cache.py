"""Compute the output of the frozen beginning once for each sample, and keep it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hookline.capturing.budget import bytes_in
from hookline.errors import FreezeError
from hookline.freezing.cached_prefix import CachedPrefix, FeatureDataset
from hookline.freezing.digest import digests
from hookline.freezing.layout import Layout
from hookline.freezing.samples import Samples, rows, spread
from hookline.freezing.shards import Shards
from hookline.freezing.trial import Trial, close
from hookline.progress import tracked

if TYPE_CHECKING:
    from hookline.freezing.frozen import Frozen

_CHECKED = 16  # samples whose input is read again when a folder is opened again
_TIMED = 64


def cache(
    frozen: Frozen,
    loader: Any,
    folder: Path,
    inputs: Callable[[Any], Any] | None,
    keep: Callable[[Any], Any] | None,
    shard_bytes: int,
    show: bool | None,
) -> CachedPrefix:
    """Refuse what would be wrong, compute what is not in the folder yet, and return what trains from it."""
    frozen.check()
    samples = Samples(loader, inputs, keep)
    samples.check_repeatable()
    trial = Trial(frozen, samples)
    shards = Shards(folder, _key(trial))
    _check_inputs(shards, samples)
    _check_features(shards, trial)
    _fill(shards, trial, shard_bytes, show)
    dataset = FeatureDataset(shards, samples.kept(trial.batch), len(trial.features))
    return CachedPrefix(dataset, trial.tail, trial.cut.path, shards.seconds, _reading_takes(dataset))


def _key(trial: Trial) -> dict[str, str]:
    """Return all that features depend on but the inputs, whose hashes are kept one by one."""
    prefix, kind = trial.cut.prefix, trial.device.type
    slots = [*prefix.slots.values(), *Layout(trial.model).buffers(prefix.modules.values())]
    hashes = digests(slot.tensor for slot in slots if slot.tensor is not None)
    weights = hashlib.blake2b(digest_size=16)
    for slot, each in zip(slots, hashes, strict=True):
        weights.update(f"{slot.path} {each}\n".encode())
    return {
        "weights": weights.hexdigest(),
        "plan": f"{_structure(trial)} up to {trial.cut.path}",
        "precision": str(torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else "as the model"),
        "data": f"{len(trial.samples)} samples",
    }


def _structure(trial: Trial) -> str:
    """Return a hash of the modules up to the cut, with what they print of their settings; what follows may change."""
    layout, state = Layout(trial.model), hashlib.blake2b(digest_size=16)
    before = {id(each) for module in trial.cut.before for each in module.modules()} | trial.cut.prefix.modules.keys()
    for module in (place.module for place in layout.places if id(place.module) in before):
        kind = f"{type(module).__module__}.{type(module).__qualname__}({module.extra_repr()})"
        state.update(f"{layout.path(module)} {kind}\n".encode())
    return state.hexdigest()


def _check_inputs(shards: Shards, samples: Samples) -> None:
    hashes = shards.hashes
    for index in spread(len(hashes), _CHECKED):
        if samples.hash_of(index) != hashes[index]:
            raise FreezeError(
                f"{str(shards.folder)!r} holds features of other inputs: sample {index} is not what it was. Delete the "
                "folder, or name another one."
            )


def _check_features(shards: Shards, trial: Trial) -> None:
    """Compare what is stored of the first batch with what the model computes: the key cannot hold everything."""
    for index in range(min(trial.count, len(shards))):
        stored = shards.sample(index, len(trial.features))
        if not close([each[index].cpu() for each in trial.features], stored):
            raise FreezeError(
                f"{str(shards.folder)!r} holds other features of sample {index} than the model computes now: its "
                "code or its settings have changed. Delete the folder, or name another one."
            )


def _fill(shards: Shards, trial: Trial, shard_bytes: int, show: bool | None) -> None:
    """Compute and write the samples that are not there yet; what is interrupted goes on after the last whole file."""
    samples, begin = trial.samples, len(shards)
    if begin == len(samples):
        return
    pending = _Pending(shards, shard_bytes, begin)
    batches = -(-(len(samples) - begin) // samples.batch_size)
    try:
        for batch in tracked(samples.batches(begin), "caching features", total=batches, show=show):
            started = time.perf_counter()
            example = trial.arguments(batch)
            values = trial.compute(example)
            pending.add(values, batch, samples, time.perf_counter() - started)
    finally:
        pending.write()  # also when it is interrupted


class _Pending:
    """Samples that are computed and not yet written."""

    def __init__(self, shards: Shards, shard_bytes: int, begin: int) -> None:
        self.shards = shards
        self.most = shard_bytes
        self.tensors: list[list[Tensor]] = []
        self.hashes: list[str] = []
        self.bytes = 0
        self.done = begin
        measured = shards.seconds
        self.computing, self.writing = (measured.get(name, 0.0) * begin for name in ("prefix", "write"))

    def add(self, values: list[Tensor], batch: Any, samples: Samples, seconds: float) -> None:
        count = len(values[0])
        kept = rows(samples.kept(batch), count, "what is kept beside the features", constants=False)
        together = [[*one, *other] for one, other in zip(rows(values, count, "the features"), kept, strict=True)]
        self.hashes += samples.hashes(batch, count)
        self.tensors += together
        self.bytes += bytes_in(together)
        self.computing += seconds
        if self.bytes >= self.most:
            self.write()

    def write(self) -> None:
        if not self.tensors:
            return
        started = time.perf_counter()
        done = self.done + len(self.tensors)
        seconds = {"prefix": self.computing / done, "write": self.writing / done}
        self.shards.append(self.tensors, self.hashes[: len(self.tensors)], seconds)  # an interrupt may come between
        self.writing += time.perf_counter() - started
        self.done, self.bytes, self.tensors, self.hashes = done, 0, [], []


def _reading_takes(dataset: FeatureDataset) -> float:
    """Return the seconds that reading a sample takes."""
    indices = spread(len(dataset), _TIMED)
    started = time.perf_counter()
    for index in indices:
        dataset[index]
    return (time.perf_counter() - started) / len(indices)
