from collections.abc import Iterator

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Give each test the same random numbers, and leave the grad mode as it was."""
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Forget what torch.compile has compiled, before and after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
