"""The map of tokens by layers: how large each token's vector is after each block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from hookline.looking.report.packing import packed, rounded
from hookline.looking.report.sample import value_range
from hookline.looking.report.site import Site


def token_map(
    model: nn.Module, sites: Sequence[Site], tokens: Sequence[str], number: int, *, item: int
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what the page's script has to know of the map, and its values: the norms of the tokens' vectors.

    Args:
        model: the model: its blocks are the entries of its lists of modules.
        sites: what was looked at.
        tokens: the words of the input.
        number: the number of the picture's values among those of the page.
        item: which of the batch.
    """
    lists = {path for path, module in model.named_modules() if isinstance(module, (nn.ModuleList, nn.Sequential))}
    blocks = [
        (site.path, site.sources[0].tensor[item])
        for site in sites
        if site.path.rpartition(".")[0] in lists
        and site.sources
        and site.sources[0].tensor.dim() == 3
        and site.sources[0].tensor.shape[1] == len(tokens)
    ]
    if not tokens or len(blocks) < 2:
        return None, []
    norms = torch.stack([value.float().norm(dim=-1).cpu() for _, value in blocks], dim=1)  # (tokens, blocks)
    low, high, rule = value_range(rounded(norms))
    picture = {
        "kind": "matrix",
        "shape": [1, *norms.shape],
        "channels": [0],
        "words": {},
        "cell": "norm",
        "step": [1, 1],
        "index": ["y", "x"],
        "columns": [path for path, _ in blocks],
        "low": low,
        "high": high,
        "signed": False,
        "tokens": True,
        "said": ["the norm of each token's vector after each block", f"range: {rule}"],
        "data": number,
    }
    return picture, [packed(norms)]
