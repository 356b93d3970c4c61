"""A residual network that overwrites, in place, what was captured."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions; the ReLU overwrites the first one's output, the sum the second one's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.conv2(self.relu(self.conv1(x)))
        out += x
        return out


class Network(nn.Module):
    """Blocks, each followed by an in-place ReLU that overwrites the block's output."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(self.relu(x))
        return self.head(self.relu(x).mean((2, 3)))


def network(width: int = 32, depth: int = 8, size: int = 56) -> tuple[Network, torch.Tensor]:
    """Return the network with weights that are the same each time, and its input (1, 3, size, size)."""
    torch.manual_seed(0)
    return Network(width, depth).eval(), torch.randn(1, 3, size, size)


def sites(model: Network) -> list[str]:
    """Return the paths of all convolutions and blocks, in the order in which they return."""
    paths = ["stem"]
    for index in range(len(model.blocks)):
        paths += [f"blocks.{index}.conv1", f"blocks.{index}.conv2", f"blocks.{index}"]
    return paths
