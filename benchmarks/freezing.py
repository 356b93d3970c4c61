"""What freezing costs, and what stored features save."""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

import hookline
from benchmarks.measure import Row, ratio, timed
from benchmarks.models import efficientnet
from hookline.freezing.digest import digests

BATCH, SIDE, CLASSES = 8, 96, 10
BODY = ("_conv_stem", "_bn0", "_blocks", "_conv_head", "_bn1", "_avg_pooling")


def network() -> nn.Module:
    model, _ = efficientnet()
    model._fc = nn.Linear(model._fc.in_features, CLASSES)
    return model


def data(count: int = BATCH) -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(count, 3, SIDE, SIDE), torch.arange(count) % CLASSES)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, target: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    return loss.item()


def by_hand(model: nn.Module) -> list[nn.Module]:
    """Freeze the correct way by hand; return what has to be told eval() after each train()."""
    body = [getattr(model, name) for name in BODY]
    for part in body:
        for parameter in part.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None
        part.eval()
    return body


def a_step() -> Row:
    x, target = data().tensors
    hand, ours = network(), network()
    body = by_hand(hand)
    hookline.freeze(ours, *BODY)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (hand, ours)]

    def theirs() -> None:
        hand.train()
        for part in body:
            part.eval()
        train(hand, optimizers[0], x, target)

    def frozen() -> None:
        ours.train()
        train(ours, optimizers[1], x, target)

    times = timed({"by hand": theirs, "frozen": frozen}, rounds=31, seconds=0.15)
    return ratio("a training step with the body frozen, train() included", times["frozen"], times["by hand"], 1.03,
                 "flags, eval() after train(), cleared gradients by hand")  # fmt: skip


def hashing(pieces: int) -> Row:
    weights = [torch.randn(10**9 // 4 // pieces) for _ in range(pieces)]
    seconds = []
    for _ in range(5):
        begun = time.perf_counter()
        digests(weights)
        seconds.append(time.perf_counter() - begun)
    low, middle, high = statistics.quantiles(seconds, n=4)
    kind = "one tensor" if pieces == 1 else f"{pieces} tensors"
    return Row(f"hashing 1 GB of weights in {kind}, seconds", middle, 1 / 0.8, (low, high), "0.8 GB a second")


def from_features() -> Iterator[Row]:
    samples = data(4 * BATCH)
    model = network()
    start = copy.deepcopy(model.state_dict())
    frozen = hookline.freeze(model, *BODY)
    with tempfile.TemporaryDirectory() as folder:
        cached = frozen.cache(DataLoader(samples, BATCH), folder)
        losses = []
        for way, dataset in ((model, samples), (cached.tail, cached.dataset)):
            model.load_state_dict(start)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            torch.manual_seed(1)
            way.train()
            batches = (batch for _ in range(5) for batch in DataLoader(dataset, BATCH))
            losses.append([train(way, optimizer, *batch) for batch in batches])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(way, dataset) -> None:
            train(way, optimizer, *default_collate([dataset[index] for index in range(BATCH)]))

        times = timed({"whole": lambda: step(model, samples), "features": lambda: step(cached.tail, cached.dataset)},
                      rounds=15, seconds=0.15)  # fmt: skip
    name = "a training step from stored features, reading included"
    yield ratio(name, times["features"], times["whole"], 1 / 2.5, "a step with the body frozen")
    apart = max(abs(one - other) for one, other in zip(*losses, strict=True))
    apart /= 1e-5
    yield Row("largest difference of their losses over 20 steps, in 1e-5", apart, 1.0, (apart, apart), "1e-5")


def rows() -> Iterator[Row]:
    yield a_step()
    yield hashing(1)
    yield hashing(100)
    yield from from_features()
