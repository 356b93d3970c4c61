"""Two hooks on one module: the first changes what goes in, the second what comes out."""

import torch
from torch import Tensor, nn

import hookline


class SumNet(nn.Module):
    """Adds its three inputs."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Return the sum."""
        print("forward")
        return a + b + c


def forward_pre_hook(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    print("forward_pre_hook")
    a, b, c = args
    return a + 10, b, c


def forward_hook(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
    print("forward_hook")
    return output + 100


if __name__ == "__main__":
    net = SumNet()
    hookline.register_forward_pre_hook(net, forward_pre_hook)
    hookline.register_forward_hook(net, forward_hook)
    print(net(*(torch.tensor(value, requires_grad=True) for value in (1.0, 2.0, 3.0))))
