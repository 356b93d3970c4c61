import pytest
import torch
from torch import nn


class Net(nn.Module):
    """A small convolutional net with a stem, two layers and a head; batch norm and dropout in both layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU())
        self.layer2 = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.pool(self.layer2(self.layer1(self.stem(x)))).flatten(1))


class Vit(nn.Module):
    """Tokens with a class token and positions that the model owns itself."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(6, 8)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, 8))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(3))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def vit() -> Vit:
    return Vit()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(4, 3, 9, 9)


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randn(2, 4, 6)
