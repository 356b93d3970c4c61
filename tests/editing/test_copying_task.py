"""A two-layer attention model that is trained to copy: the head that does it is found, ablated, and patched."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody writes it

import hookline
from hookline import patch, zero

VOCABULARY, LENGTH, HEADS, WIDTH = 8, 6, 2, 32
LOCAL = 2
COPYING = "layers.1.each.1"  # the only head that sees more than the last two tokens


class Attention(nn.Module):
    """Attention whose heads come out apart, each at a place of its own; a head sees so many tokens back."""

    def __init__(self, reach: tuple[int, ...]) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.each = nn.ModuleList(nn.Identity() for _ in reach)  # (batch, position, d_head)
        self.mixed = nn.Linear(WIDTH, WIDTH, bias=False)
        self.reach = reach

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).unbind(-3)  # (batch, position, head, d_head)
        back = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        out = []
        for head, (place, reach) in enumerate(zip(self.each, self.reach, strict=True)):
            scores = q[:, :, head] @ k[:, :, head].transpose(-1, -2) / q.shape[-1] ** 0.5
            seen = (back >= 0) & (back < reach)
            out.append(place(torch.softmax(scores.masked_fill(~seen, -1e9), -1) @ v[:, :, head]))
        return self.mixed(torch.cat(out, -1))


class Copier(nn.Module):
    """Sees a row of tokens twice, and predicts each token of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(2 * LENGTH, WIDTH)
        self.layers = nn.ModuleList([Attention((LOCAL, LOCAL)), Attention((LOCAL, 2 * LENGTH))])
        self.read = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = x + layer(x)
        return self.read(x)


def batch(count: int, generator) -> torch.Tensor:
    row = torch.randint(VOCABULARY, (count, LENGTH), generator=generator)
    return torch.cat([row, row], 1)


def accuracy(logits, ids) -> float:
    """Return the share of the second row, but for its first token, that is predicted."""
    return (logits[:, LENGTH:-1].argmax(-1) == ids[:, LENGTH + 1 :]).float().mean().item()


@pytest.fixture(scope="module")
def trained():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, generator = Copier(), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(500):
        ids = batch(64, generator)
        loss = F.cross_entropy(model(ids)[:, LENGTH:-1].flatten(0, 1), ids[:, LENGTH + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.set_num_threads(threads)
    ids = batch(256, generator)
    return model.eval(), ids


def test_the_model_copies(trained) -> None:
    model, ids = trained
    assert accuracy(model(ids), ids) > 0.98


PLACES = [f"layers.{layer}.each.{head}" for layer in range(2) for head in range(HEADS)]


def test_ablating_the_head_that_copies_breaks_it_and_no_other_does(trained) -> None:
    model, ids = trained
    scores = {
        place: accuracy(logits, ids)
        for place, logits in zip(PLACES, hookline.sweep(model, ids, [{place: zero} for place in PLACES]), strict=True)
    }
    assert scores.pop(COPYING) < 0.4
    assert min(scores.values()) > 0.8, scores


def test_patching_the_head_restores_what_another_row_has_broken(trained) -> None:
    model, ids = trained
    corrupted = ids.clone()
    corrupted[:, :LENGTH] = (ids[:, :LENGTH] + 1) % VOCABULARY  # the row that is to be copied is another
    assert accuracy(model(corrupted), ids) < 0.1
    with hookline.capture(model, COPYING) as clean:
        model(ids)
    with hookline.edit(model, COPYING, patch(clean)):
        assert accuracy(model(corrupted), ids) > 0.9


def test_causal_tracing_finds_the_head(trained) -> None:
    model, ids = trained
    corrupted = ids.clone()
    corrupted[:, :LENGTH] = (ids[:, :LENGTH] + 1) % VOCABULARY
    table = hookline.trace_effect(model, ids, corrupted, "layers.*.each.*", lambda logits: accuracy(logits, ids))
    effects = {row.site: row.effect for row in table}
    assert list(effects) == PLACES
    assert effects.pop(COPYING) > 0.9
    assert max(effects.values()) < 0.2, effects
